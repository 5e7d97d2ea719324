
// What a wiki with inquiries would set: a namespace of pages that are JSON, and their talk pages.
$wgCapitalLinks = false;
$wgExtraNamespaces += [3000 => 'Inquiry', 3001 => 'Inquiry_talk', 3002 => 'Vendor', 3003 => 'Vendor_talk'];
$wgNamespaceContentModels[3000] = CONTENT_MODEL_JSON;
$wgNamespacesWithSubpages += [3000 => true, 3001 => true];
$wgMainCacheType = CACHE_NONE;
$wgJobRunRate = 0;
// The server in front of it asks for a password.
if (PHP_SAPI === 'cli-server' && ($_SERVER['PHP_AUTH_USER'] ?? '').':'.($_SERVER['PHP_AUTH_PW'] ?? '') !== 'gateway:'.trim(file_get_contents("$IP/../password"))) {
	header('WWW-Authenticate: Basic realm="wiki"', true, 401);
	exit;
}
