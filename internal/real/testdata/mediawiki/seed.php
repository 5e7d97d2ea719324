<?php
// Fills a fresh wiki with the inquiries on standard input, or gives one another title: seed.php [OLD NEW].
require_once getenv('WIKI').'/maintenance/Maintenance.php';

use MediaWiki\MediaWikiServices;

class Seed extends Maintenance {
	public function __construct() {
		parent::__construct();
		$this->addArg('old', 'a title', false);
		$this->addArg('new', 'another one', false);
	}

	private function write($namespace, $name, $text, User $by, $time) {
		$title = Title::makeTitleSafe($namespace, $name);
		$page = MediaWikiServices::getInstance()->getWikiPageFactory()->newFromTitle($title);
		$status = $page->doUserEditContent(ContentHandler::makeContent($text, $title), $by, '', EDIT_SUPPRESS_RC);
		if (!$status->isOK()) {
			throw new Exception("$name: $status");
		}
		if ($time) {
			$this->getDB(DB_PRIMARY)->update('revision', ['rev_timestamp' => wfTimestamp(TS_MW, $time)], ['rev_page' => $page->getId()]);
		}
	}

	public function execute() {
		$this->getDB(DB_PRIMARY)->query('PRAGMA synchronous = OFF', __METHOD__);
		$staff = User::newSystemUser('Agent', ['steal' => true]);
		$customer = User::newSystemUser('Portal', ['steal' => true]);
		if ($this->hasArg(0)) {
			$db = $this->getDB(DB_REPLICA);
			foreach ($db->selectFieldValues('page', 'page_title', ['page_namespace' => 3000]) as $name) {
				$text = MediaWikiServices::getInstance()->getWikiPageFactory()->newFromTitle(Title::makeTitle(3000, $name))->getContent()->getText();
				$fields = json_decode($text, true);
				if ($fields['subject'] === $this->getArg(0)) {
					$this->write(3000, $name, json_encode(['subject' => $this->getArg(1)] + $fields, JSON_UNESCAPED_UNICODE), $customer, null);
				}
			}
			return;
		}
		$previous = '';
		$vendors = [];
		foreach (json_decode(stream_get_contents(STDIN), true) as $n => $i) {
			$text = fn($s, $id = '') => str_replace(['{previous}', '{id}'], [$previous, $id], $s);
			$name = $i['customer'].'/'.chr(97 + intdiv($n, 26)).chr(97 + $n % 26); // their order is that of the inquiries
			$id = "Inquiry:$name";
			$vendors[$i['vendor']] = ($vendors[$i['vendor']] ?? '')."* [[$id]]\n";
			$this->write(3000, $name, json_encode(['answers' => "$name/", 'customer' => $i['customer'], 'company' => $i['company'], 'vendor' => $i['vendor'], 'subject' => $text($i['title']),
				'text' => $text($i['content']), 'state' => ['new', 'open', 'answered', 'closed'][$i['state']], 'topic' => [null, 'delivery', 'refund', 'product'][$i['category']],
				'opened' => $i['created']], JSON_UNESCAPED_UNICODE), $customer, $i['created']);
			foreach ($i['replies'] as $m => $r) {
				$this->write(3001, sprintf('%s/%03d', $name, $m), $text($r['content'], $id).($r['private'] ? "\n[[Category:Internal]]" : ''), $r['staff'] ? $staff : $customer, $r['created']);
			}
			$previous = $id;
		}
		foreach ($vendors as $vendor => $links) {
			$this->write(3002, $vendor, $links, $staff, null);
		}
	}
}

$maintClass = Seed::class;
require_once RUN_MAINTENANCE_IF_MAIN;
