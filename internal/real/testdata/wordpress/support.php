<?php
// A plugin that WordPress cannot switch off: what a site with inquiries would register.
add_action('init', function () {
	foreach (['new', 'in-progress', 'answered', 'done'] as $state) {
		register_post_status($state, ['label' => $state, 'protected' => true, 'show_in_admin_all_list' => true]);
	}
	register_post_type('inquiry', ['label' => 'Inquiries', 'public' => false, 'show_in_rest' => true, 'rest_base' => 'inquiries',
		'supports' => ['title', 'editor', 'author', 'comments', 'custom-fields']]);
	register_taxonomy('topic', 'inquiry', ['public' => false, 'show_in_rest' => true, 'rest_base' => 'topics']);
	foreach (['customer', 'company', 'vendor'] as $name) {
		register_post_meta('inquiry', $name, ['type' => 'string', 'single' => true, 'show_in_rest' => true]);
	}
});
// ?customer= and ?vendor= select by these fields.
add_filter('rest_inquiry_query', function ($args, $request) {
	foreach (['customer', 'vendor'] as $name) {
		if (isset($request[$name])) {
			$args['meta_query'][] = ['key' => $name, 'value' => $request[$name]];
		}
	}
	return $args;
}, 10, 2);
// Quotes stay as they were written.
add_filter('run_wptexturize', '__return_false');
