// A SOAP service: WS-Security for the sign-in and a session's cookie from then on, or WS-Security in each request, prefixes that differ from
// reply to reply, CDATA, nil, times with and without an offset, and faults with status 500.
// Beside it are the files password, data.json and, while answers may be read, answers.
const crypto = require('crypto'), fs = require('fs'), http = require('http'), soap = require('soap');
const [host, port] = process.argv[2].split(':');
const data = fs.existsSync('data.json') ? JSON.parse(fs.readFileSync('data.json')) : [];
const sessions = new Map(); // the password that opened it
const password = () => fs.readFileSync('password', 'utf8');
const fault = (faultcode, faultstring) => ({Fault: {faultcode, faultstring, statusCode: 500}});
const array = (x) => x == null || x === '' ? [] : Array.isArray(x) ? x : [x];
const text = (x, n) => n % 2 ? x : `<![CDATA[${x}]]>`;
const time = (x, n) => n % 3 ? x : new Date(Date.parse(x) + 9 * 3600000).toISOString().replace(/(\.000)?Z$/, ''); // of Seoul, without an offset

// A UsernameToken counts only with user and password.
const named = (headers) => {
  const token = headers && headers.Security && headers.Security.UsernameToken;
  const given = token && token.Password;
  return token && token.Username === 'inquiry-gateway' && (given.$value || given) === password();
};
const signedIn = (request, headers) => {
  const [, session] = /JSESSIONID=(\w+)/.exec(request.headers.cookie) || [];
  if (!named(headers) && (!sessions.has(session) || sessions.get(session) !== password())) {
    throw fault('wsse:FailedAuthentication', 'The session is unknown or has ended.');
  }
};
const write = () => fs.writeFileSync('data.json', JSON.stringify(data));

const operations = {
  SignIn(args, done, headers, request, response) {
    if (!named(headers)) {
      throw fault('wsse:FailedAuthentication', 'User and password do not fit.');
    }
    const session = crypto.randomUUID().replaceAll('-', '');
    sessions.set(session, password());
    response.setHeader('Set-Cookie', ['JSESSIONID=deleted; Path=/', `JSESSIONID=${session}; Path=/; HttpOnly`]);
    return {user: 'inquiry-gateway'};
  },
  PutInquiry({inquiry}) {
    data.unshift(JSON.parse(JSON.stringify(inquiry))); // its times are texts then
    write();
    return {stored: data.length};
  },
  Retitle({old, subject}) {
    data.find((i) => i.subject === old).subject = subject;
    write();
    return {changed: 1};
  },
  ListInquiries(args, done, headers, request) {
    signedIn(request, headers);
    const states = array(args.state), {number, size} = args.page.attributes;
    const found = data.filter((i) => (args.customerNo ? i.customerNo === args.customerNo : i.vendorNo === args.vendorNo) &&
      (!states.length || states.includes(i.state)) && (!args.category || i.category === args.category));
    if (!found.length) {
      throw fault('inv:NoRecords', 'There is no such inquiry.');
    }
    const readable = fs.existsSync('answers');
    return {result: {
      attributes: {pages: Math.ceil(found.length / size)},
      inquiry: found.slice((number - 1) * size, number * size).map((i, n) => ({
        attributes: i.attributes, customerNo: i.customerNo, vendorNo: i.vendorNo, company: i.company, subject: text(i.subject, n), text: text(i.text, n + 1),
        state: i.state, category: i.category || {attributes: {'xsi:nil': 'true'}}, openedAt: time(i.openedAt, n),
        ...(readable && {answers: {answer: array(i.answers && i.answers.answer).map((a, m) => ({attributes: a.attributes, text: text(a.text, m), at: time(a.at, m)}))}}),
      })),
    }};
  },
};

let replies = 0;
const web = http.createServer((request, response) => response.writeHead(404).end());
web.listen(Number(port), host, () => {
  const wsdl = fs.readFileSync(__dirname + '/service.wsdl', 'utf8');
  const server = soap.listen(web, '/services/InquiryService', {InquiryService: {InquiryPort: operations}}, wsdl);
  server.on('response', (response) => {
    const n = replies++ % 3;
    response.result = response.result.replace(/(<\/?|xmlns:)(soap|tns)\b/g, (all, before, prefix) => before + prefix[0] + n);
  });
});
