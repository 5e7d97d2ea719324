# Fills a fresh Tryton with the inquiries on standard input: tryton.py trytond.conf DATABASE.
import json
import sys
from datetime import datetime

from trytond.config import config
config.update_etc(sys.argv[1])
from trytond.pool import Pool
from trytond.transaction import Transaction

database = sys.argv[2]
pool = Pool(database)
pool.init()
with Transaction().start(database, 1) as transaction:
    Party, Company, Employee, Currency, User, Group, Model, Type, Complaint, Note = [pool.get(name) for name in [
        'party.party', 'company.company', 'company.employee', 'currency.currency', 'res.user', 'res.group', 'ir.model',
        'sale.complaint.type', 'sale.complaint', 'ir.note']]
    owner = Party(name='Support')
    owner.save()
    euro = Currency(name='Euro', code='EUR', symbol='E')
    euro.save()
    company = Company(party=owner, currency=euro)
    company.save()
    admin, = User.search([('login', '=', 'admin')])
    admin.companies = [company]
    admin.company = company
    admin.save()
    users = {}
    for login in ['gateway', 'agent', 'portal']:
        users[login] = User(name=login, login=login, password='a word for Tryton', companies=[company], company=company, groups=Group.search([]))
        users[login].save()
    origin, = Model.search([('model', '=', 'sale.sale')])
    with transaction.set_context(company=company.id):
        kinds = []
        for name in ['Other', 'Delivery', 'Refund', 'Product']:
            kinds.append(Type(name=name, origin=origin))
            kinds[-1].save()
        cursor = transaction.connection.cursor()
        inquiries = json.load(sys.stdin)
        parties, employees = {}, {}
        for code, name in {i['customer']: i['company'] for i in inquiries}.items():
            parties[code] = Party(name=name, code=code)
            parties[code].save()
            employees[code] = Employee(party=parties[code], company=company)
            employees[code].save()
        previous = ''
        first = True
        for i in inquiries:
            def text(s, id=''):
                return s.replace('{previous}', previous).replace('{id}', id)
            if first:  # ids of one digit would be in any text
                cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('sale_complaint', 35000), ('ir_note', 71000)")
                first = False
            c = Complaint(customer=parties[i['customer']], company=company, employee=employees[i['vendor']], type=kinds[i['category']],
                reference=text(i['title']), description=text(i['content']))
            c.save()
            previous = str(c.id)
            c.state = ['draft', 'waiting', 'approved', 'done'][i['state']]
            c.save()
            stamps = [('sale_complaint', i['created'], c.id)]
            for r in i['replies']:
                with transaction.set_user(users['agent' if r['staff'] else 'portal'].id):
                    note = Note(resource=c, message=text(r['content'], str(c.id)))
                    note.save()
                stamps.append(('ir_note', r['created'], note.id))
            for table, time, id in stamps:
                cursor.execute('UPDATE %s SET create_date = ? WHERE id = ?' % table, (datetime.strptime(time, '%Y-%m-%dT%H:%M:%SZ'), id))
    transaction.commit()
