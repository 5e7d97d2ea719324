# Fills a fresh Redmine with the inquiries on standard input.
require 'json'
Redmine::DefaultData::Loader.load('en')
Setting.rest_api_enabled = '1'
Setting.login_required = '1'
ActiveJob::Base.queue_adapter = :test # no other thread writes mails
admin = User.find_by(login: 'admin')
admin.update_columns(must_change_passwd: false)
people = [['gateway', true], ['agent', false], ['portal', false]].map do |login, is_admin| # ids 5, 6, 7
  User.create!(login: login, firstname: login, lastname: 'User', mail: "#{login}@example.com", password: 'a word for it', language: 'en') { |u| u.admin = is_admin }
end
project = Project.create!(name: 'Support', identifier: 'support', trackers: Tracker.all)
role = Role.find_by(name: 'Manager')
people.each { |p| Member.create!(project: project, principal: p, roles: [role]) }
fields = ['Customer no', 'Customer', 'Vendor no'].map do |name|
  IssueCustomField.create!(name: name, field_format: 'string', is_for_all: true, is_filter: true, trackers: Tracker.all)
end
topics = [nil] + %w[Delivery Refund Product].map { |name| IssueCategory.create!(project: project, name: name) }
states = ['New', 'In Progress', 'Resolved', 'Closed'].map { |name| IssueStatus.find_by(name: name) }
previous = ''
inquiries = JSON.parse($stdin.read)
ActiveRecord::Base.transaction { inquiries.each do |i|
  text = ->(s, id = '') { s.gsub('{previous}', previous).gsub('{id}', id) }
  issue = Issue.new(project: project, tracker: Tracker.first, author: people[2], subject: text[i['title']], description: text[i['content']], category: topics[i['category']])
  issue.custom_field_values = fields.map(&:id).map(&:to_s).zip([i['customer'], i['company'], i['vendor']]).to_h
  issue.id = 35001 if previous == '' # ids of one digit would be in any text
  issue.save!
  id = issue.id.to_s
  i['replies'].each do |r|
    note = Journal.create!(journalized: issue, user: people[r['staff'] ? 1 : 2], notes: text[r['content'], id], private_notes: r['private'], id: (70001 if Journal.maximum(:id).to_i < 70001))
    note.update_columns(created_on: Time.parse(r['created']))
  end
  issue.init_journal(people[1]) # a change of state is an entry of the journal without a text
  issue.reload.status = states[i['state']]
  issue.save!
  issue.update_columns(created_on: Time.parse(i['created']))
  previous = id
end }
