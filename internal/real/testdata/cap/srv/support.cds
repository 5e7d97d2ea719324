namespace support;

entity Customers {
  key No   : String(60);
      Name : String(100);
}

entity Inquiries {
  key Id         : UUID;
      CustomerNo : String(60);
      VendorNo   : String(60);
      Subject    : String(200);
      Text       : LargeString;
      State      : String(20);
      Category   : String(20);
      CreatedAt  : Timestamp;
      Customer   : Association to Customers on Customer.No = CustomerNo;
      Answers    : Composition of many Answers on Answers.Inquiry = $self;
}

entity Answers {
  key Id        : UUID;
      Inquiry   : Association to Inquiries;
      Text      : LargeString;
      Side      : String(20);
      Internal  : Boolean;
      CreatedAt : Timestamp;
}

@requires: 'authenticated-user'
service Support @(path: '/odata/v4/support') {
  @cds.query.limit: {max: 50}
  entity Inquiries as projection on support.Inquiries;
  entity Answers   as projection on support.Answers;
  entity Customers as projection on support.Customers;
}
