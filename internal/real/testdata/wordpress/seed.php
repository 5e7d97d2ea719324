<?php
// Installs WordPress, fills it with the inquiries on standard input, and prints the gateway's password.
define('WP_INSTALLING', true);
require 'site/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Support', 'admin', 'admin@example.com', false, '', 'admin');
update_option('siteurl', "http://$argv[1]");
update_option('home', "http://$argv[1]");
update_option('permalink_structure', '/%postname%/');
update_option('timezone_string', 'Europe/Berlin');
do_action('init');
$staff = wp_create_user('agent', 'agent', 'agent@example.com'); // 2
$customer = wp_create_user('portal', 'portal', 'portal@example.com'); // 3
$topics = [null];
foreach (['Delivery', 'Refund', 'Product'] as $name) { // 2, 3 and 4
	$topics[] = wp_insert_term($name, 'topic')['term_id'];
}
$local = fn($time) => get_date_from_gmt(gmdate('Y-m-d H:i:s', strtotime($time)));
$utc = fn($time) => gmdate('Y-m-d H:i:s', strtotime($time));
$wpdb->query("ALTER TABLE $wpdb->posts AUTO_INCREMENT = 35001");
$wpdb->query("ALTER TABLE $wpdb->comments AUTO_INCREMENT = 71001");
$previous = '';
wp_defer_comment_counting(true);
foreach (json_decode(stream_get_contents(STDIN), true) as $i) {
	$text = fn($s, $id = '') => wp_slash(str_replace(['{previous}', '{id}'], [$previous, $id], $s));
	$id = wp_insert_post(['post_type' => 'inquiry', 'post_status' => ['new', 'in-progress', 'answered', 'done'][$i['state']], 'post_author' => $customer,
		'post_title' => $text(esc_html($i['title'])), 'post_content' => $text($i['html']), 'post_date' => $local($i['created']), 'post_date_gmt' => $utc($i['created']),
		'meta_input' => ['customer' => wp_slash($i['customer']), 'company' => wp_slash($i['company']), 'vendor' => wp_slash($i['vendor'])]], true);
	if (is_wp_error($id)) {
		throw new Exception($id->get_error_message());
	}
	if ($i['category']) {
		wp_set_object_terms($id, [$topics[$i['category']]], 'topic');
	}
	foreach ($i['replies'] as $r) {
		wp_insert_comment(['comment_post_ID' => $id, 'user_id' => $r['staff'] ? $staff : $customer, 'comment_content' => $text($r['html'], $id), 'comment_approved' => $r['private'] ? 0 : 1,
			'comment_date' => $local($r['created']), 'comment_date_gmt' => $utc($r['created'])]);
	}
	$previous = (string) $id;
}
list($password) = WP_Application_Passwords::create_new_application_password(1, ['name' => 'gateway']);
echo $password;
