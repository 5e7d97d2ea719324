# Fills a fresh Request Tracker with the inquiries on standard input: perl -I LIB requesttracker.pl.
use strict;
use warnings;
use RT;
use JSON;
use Encode;
use MIME::Entity;
RT::LoadConfig();
RT::Init();
my $dbh = RT->DatabaseHandle->dbh;
$dbh->do('PRAGMA synchronous = OFF');
$dbh->do('DELETE FROM ObjectScrips');    # nobody gets mails
# Ids of one digit would be in any text. Both rows are gone at the end.
$dbh->do('INSERT INTO Tickets (id) VALUES (35000)');
$dbh->do('INSERT INTO Attachments (id, TransactionId, Parent, Creator) VALUES (71000, 0, 0, 0)');
my $system = RT->SystemUser;

sub make {
    my ($class, %args) = @_;
    my $object = "RT::$class"->new($system);
    my ($ok, $why) = $object->Create(%args);
    die "$class: $why" unless $ok;
    return $object;
}
my $queue = make('Queue', Name => 'Support');
for my $name (qw(Vendor Company Topic)) {
    my $field = make('CustomField', Name => $name, Type => 'FreeformSingle', LookupType => 'RT::Queue-RT::Ticket', MaxValues => 1);
    $field->AddToObject($queue);
}
my %user;
for my $name (qw(gateway agent portal)) {
    $user{$name} = make('User', Name => $name, EmailAddress => "$name\@example.com", Privileged => 1, Password => 'a word for it');
}
# Who may not see comments is told of none.
$user{gateway}->PrincipalObj->GrantRight(Right => $_, Object => $queue) for qw(SeeQueue ShowTicket SeeCustomField);
$user{$_}->PrincipalObj->GrantRight(Right => 'SuperUser', Object => $RT::System) for qw(agent portal);

sub entity {
    return MIME::Entity->build(Type => 'text/plain', Charset => 'UTF-8', Data => Encode::encode('UTF-8', $_[0]), @_ > 1 ? (Subject => 'asked') : ());
}

sub at {
    my ($object, $time) = @_;
    $time =~ s/^(\S+)T(\S+)Z$/$1 $2/;
    $object->__Set(Field => 'Created', Value => $time);
    if ($object->isa('RT::Transaction')) {
        my $attachments = $object->Attachments;
        while (my $a = $attachments->Next) { at($a, $time) }
    }
}
my ($previous, %known) = ('');
for my $i (@{ decode_json(do { local $/; <STDIN> }) }) {
    my $text = sub {
        my ($s, $id) = @_;
        $s =~ s/\{previous\}/$previous/g;
        $s =~ s/\{id\}/$id/g if $id;
        return $s;
    };
    my $ticket = RT::Ticket->new($system);
    my ($id, $created, $why) = $ticket->Create(Queue => 'Support', Subject => $text->($i->{title}), MIMEObj => entity($text->($i->{content}), 1));
    die $why unless $id;
    my %fields = (Vendor => $i->{vendor}, Company => $i->{company}, Topic => ('', 'delivery', 'refund', 'product')[$i->{category}]);
    for my $name (sort keys %fields) {
        $ticket->AddCustomFieldValue(Field => $name, Value => $fields{$name}, RecordTransaction => 0) if $fields{$name} ne '';
    }
    for my $customer ($i->{customer}, @{ $i->{others} }) {
        my $who = $known{$customer} ||= make('User', Name => "customer $customer");
        $who->__Set(Field => 'EmailAddress', Value => $customer);    # some are no addresses
        $ticket->AddWatcher(Type => 'Requestor', PrincipalId => $who->PrincipalId, Silent => 1);
    }
    my $transaction = RT::Transaction->new($system);
    $transaction->Load($created);
    at($transaction, $i->{created});
    for my $r (@{ $i->{replies} }) {
        my $own = RT::Ticket->new(RT::CurrentUser->new($user{ $r->{staff} ? 'agent' : 'portal' }));
        $own->Load($id);
        my $method = $r->{private} ? 'Comment' : 'Correspond';
        my ($ok, $message, $added) = $own->$method(MIMEObj => entity($text->($r->{content}, $id)));
        die $message unless $ok;
        at($added, $r->{created});
    }
    $ticket->__Set(Field => 'Status', Value => ('new', 'open', 'stalled', 'resolved')[$i->{state}]);
    at($ticket, $i->{created});
    $previous = $id;
}
$dbh->do("DELETE FROM $_") for 'Tickets WHERE id = 35000', 'Attachments WHERE id = 71000';
