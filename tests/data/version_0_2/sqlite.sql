CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE organizations (
	id TEXT NOT NULL,
	name TEXT NOT NULL,
	"plan" TEXT NOT NULL,
	last_claimed_at BIGINT,
	created_at BIGINT NOT NULL, daily_budget_nanousd BIGINT, job_budget_nanousd BIGINT, auto_trigger TEXT, paused_at BIGINT, setup_network TEXT,
	PRIMARY KEY (id),
	UNIQUE (name)
);
CREATE TABLE api_keys (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	name TEXT NOT NULL,
	hint TEXT NOT NULL,
	hash BLOB NOT NULL,
	scope TEXT NOT NULL,
	git_write BOOLEAN DEFAULT 0 NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT,
	revoked_at BIGINT,
	last_used_at BIGINT, allowed_networks TEXT,
	PRIMARY KEY (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id),
	UNIQUE (hash)
);
CREATE TABLE repos (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	full_name TEXT NOT NULL,
	platform TEXT NOT NULL,
	source TEXT NOT NULL,
	default_branch TEXT NOT NULL,
	head_commit TEXT NOT NULL,
	index_status TEXT NOT NULL,
	line_count BIGINT DEFAULT 0 NOT NULL,
	indexed_commit TEXT,
	index_done BIGINT DEFAULT 0 NOT NULL,
	index_total BIGINT,
	index_error TEXT,
	index_failures BIGINT DEFAULT 0 NOT NULL,
	index_due_at BIGINT,
	next_pull_number BIGINT DEFAULT 1 NOT NULL,
	created_at BIGINT NOT NULL,
	disconnected_at BIGINT, lifted_paths TEXT DEFAULT '[]' NOT NULL, languages TEXT DEFAULT '[]' NOT NULL, index_warnings TEXT DEFAULT '[]' NOT NULL, index_fingerprint TEXT, dependencies_digest TEXT, configured_trigger TEXT, auto_trigger TEXT, scan_due_at BIGINT, scanned_at BIGINT, scan_error TEXT, connection_id TEXT, external_id TEXT, sync_due_at BIGINT, sync_failures BIGINT DEFAULT 0 NOT NULL, sync_error TEXT, synced_at BIGINT, whole_due_at BIGINT, told_at BIGINT, hook_seen_at BIGINT, index_lease_until BIGINT, sync_lease_until BIGINT, required_tags TEXT DEFAULT '[]' NOT NULL, max_concurrent_jobs INTEGER, configured_grouping TEXT,
	PRIMARY KEY (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE UNIQUE INDEX repos_connected ON repos (organization_id, full_name) WHERE disconnected_at IS NULL;
CREATE INDEX repos_index_due ON repos (index_due_at) WHERE index_due_at IS NOT NULL;
CREATE TABLE jobs (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	repo_id TEXT NOT NULL,
	repo TEXT NOT NULL,
	agent TEXT NOT NULL,
	ticket_id TEXT,
	config_override TEXT NOT NULL,
	status TEXT NOT NULL,
	attempt BIGINT DEFAULT 0 NOT NULL,
	lost_workers BIGINT DEFAULT 0 NOT NULL,
	fence BIGINT DEFAULT 0 NOT NULL,
	lease_owner TEXT,
	lease_expires_at BIGINT,
	credential_hash BLOB,
	cancel_requested_at BIGINT,
	created_at BIGINT NOT NULL,
	queued_at BIGINT NOT NULL,
	started_at BIGINT,
	completed_at BIGINT,
	base_commit TEXT,
	branch TEXT NOT NULL,
	head_commit TEXT,
	pr_url TEXT,
	pr_number BIGINT,
	error_code TEXT,
	error_message TEXT,
	usage TEXT,
	last_sequence BIGINT DEFAULT 0 NOT NULL, prompt TEXT, verification TEXT, created_by TEXT, created_by_name TEXT, follows TEXT, cause TEXT, ticket TEXT, ticket_linked_at BIGINT, queue_order BIGINT DEFAULT '0' NOT NULL, kept_at BIGINT, waits_for TEXT, warnings TEXT, environment_key TEXT, environment TEXT, labels TEXT, traceparent TEXT, phases TEXT,
	PRIMARY KEY (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id),
	FOREIGN KEY(repo_id) REFERENCES repos (id)
);
CREATE INDEX jobs_of_organization ON jobs (organization_id, id);
CREATE INDEX jobs_leased ON jobs (organization_id) WHERE lease_owner IS NOT NULL;
CREATE INDEX jobs_finished ON jobs (completed_at) WHERE completed_at IS NOT NULL;
CREATE UNIQUE INDEX jobs_credential ON jobs (credential_hash) WHERE credential_hash IS NOT NULL;
CREATE TABLE events (
	job_id TEXT NOT NULL,
	sequence BIGINT NOT NULL,
	id TEXT NOT NULL,
	event TEXT NOT NULL,
	body BLOB NOT NULL,
	created_at BIGINT NOT NULL, organization_id TEXT, position BIGINT,
	PRIMARY KEY (job_id, sequence)
);
CREATE TABLE job_logs (
	job_id TEXT NOT NULL,
	sequence BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY (job_id, sequence)
);
CREATE TABLE idempotency_keys (
	organization_id TEXT NOT NULL,
	"key" TEXT NOT NULL,
	body_hash BLOB NOT NULL,
	response BLOB NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (organization_id, "key")
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
CREATE TABLE pulls (
	repo_id TEXT NOT NULL,
	number BIGINT NOT NULL,
	title TEXT NOT NULL,
	body TEXT NOT NULL,
	head_branch TEXT NOT NULL,
	base_branch TEXT NOT NULL,
	head_commit TEXT NOT NULL,
	base_commit TEXT NOT NULL,
	state TEXT NOT NULL,
	draft BOOLEAN DEFAULT 0 NOT NULL,
	merge_commit TEXT,
	created_at BIGINT NOT NULL,
	merged_at BIGINT,
	closed_at BIGINT, ended_by TEXT, url TEXT, comment_seen BIGINT DEFAULT 0 NOT NULL, asked_at BIGINT, told_at BIGINT, missing_looks BIGINT DEFAULT 0 NOT NULL, line_comment_seen BIGINT, review_seen BIGINT,
	PRIMARY KEY (repo_id, number),
	FOREIGN KEY(repo_id) REFERENCES repos (id)
);
CREATE UNIQUE INDEX pulls_of_branch ON pulls (repo_id, head_branch);
CREATE TABLE workers (
	id TEXT NOT NULL,
	hostname TEXT NOT NULL,
	agents TEXT NOT NULL,
	slots BIGINT NOT NULL,
	started_at BIGINT NOT NULL,
	heartbeat_at BIGINT NOT NULL, unready TEXT DEFAULT '{}' NOT NULL, version TEXT DEFAULT '' NOT NULL, configuration_digest TEXT DEFAULT '' NOT NULL, tags TEXT DEFAULT '[]' NOT NULL, drain_requested_at BIGINT, location TEXT, disk_free_bytes BIGINT, disk_total_bytes BIGINT,
	PRIMARY KEY (id)
);
CREATE TABLE secrets (
	organization_id TEXT NOT NULL,
	name TEXT NOT NULL,
	sealed BLOB NOT NULL,
	key_id TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	PRIMARY KEY (organization_id, name),
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE TABLE job_spending (
	job_id TEXT NOT NULL,
	spent_nanousd BIGINT DEFAULT 0 NOT NULL,
	input_tokens BIGINT DEFAULT 0 NOT NULL,
	output_tokens BIGINT DEFAULT 0 NOT NULL,
	requests BIGINT DEFAULT 0 NOT NULL,
	PRIMARY KEY (job_id)
);
CREATE TABLE daily_spending (
	organization_id TEXT NOT NULL,
	day BIGINT NOT NULL,
	spent_nanousd BIGINT DEFAULT 0 NOT NULL,
	PRIMARY KEY (organization_id, day),
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE TABLE webhook_endpoints (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	url TEXT NOT NULL,
	description TEXT DEFAULT '' NOT NULL,
	events TEXT DEFAULT '[]' NOT NULL,
	sealed BLOB NOT NULL,
	key_id TEXT NOT NULL,
	pending_sealed BLOB,
	pending_key_id TEXT,
	promote_at BIGINT,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	disabled_at BIGINT,
	disabled_reason TEXT,
	last_success_at BIGINT,
	last_failure_at BIGINT,
	failing_since BIGINT,
	removed_at BIGINT,
	PRIMARY KEY (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX webhook_endpoints_of_organization ON webhook_endpoints (organization_id, id) WHERE removed_at IS NULL;
CREATE TABLE deliveries (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	endpoint_id TEXT NOT NULL,
	job_id TEXT NOT NULL,
	sequence BIGINT NOT NULL,
	event_id TEXT NOT NULL,
	event TEXT NOT NULL,
	status TEXT NOT NULL,
	attempts BIGINT DEFAULT 0 NOT NULL,
	failures BIGINT DEFAULT 0 NOT NULL,
	due_at BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	lease_owner TEXT,
	lease_expires_at BIGINT,
	fence BIGINT DEFAULT 0 NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX deliveries_first ON deliveries (organization_id, endpoint_id, id) WHERE status = 'pending' AND lease_owner IS NULL AND attempts = 0;
CREATE INDEX deliveries_retry ON deliveries (organization_id, endpoint_id, due_at) WHERE status = 'pending' AND lease_owner IS NULL AND attempts > 0;
CREATE INDEX deliveries_leased ON deliveries (lease_expires_at) WHERE lease_owner IS NOT NULL;
CREATE INDEX deliveries_of_job ON deliveries (job_id, endpoint_id, sequence);
CREATE INDEX deliveries_of_organization ON deliveries (organization_id, (status || ''), id);
CREATE INDEX deliveries_of_endpoint ON deliveries (endpoint_id, (status || ''), id);
CREATE TABLE delivery_attempts (
	delivery_id TEXT NOT NULL,
	id TEXT NOT NULL,
	at BIGINT NOT NULL,
	duration_ms BIGINT NOT NULL,
	status_code BIGINT,
	error_class TEXT,
	error TEXT,
	address TEXT,
	request_headers TEXT NOT NULL,
	response_headers TEXT NOT NULL,
	response_body BLOB NOT NULL,
	PRIMARY KEY (delivery_id, id)
);
CREATE TABLE effective_settings (
	name TEXT NOT NULL,
	value TEXT NOT NULL,
	updated_at BIGINT NOT NULL,
	PRIMARY KEY (name)
);
CREATE TABLE users (
	id TEXT NOT NULL,
	email TEXT NOT NULL,
	name TEXT DEFAULT '' NOT NULL,
	password_hash TEXT,
	oidc_issuer TEXT,
	oidc_subject TEXT,
	created_at BIGINT NOT NULL,
	last_sign_in_at BIGINT, is_operator BOOLEAN DEFAULT 0 NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (email)
);
CREATE UNIQUE INDEX users_of_provider ON users (oidc_issuer, oidc_subject) WHERE oidc_subject IS NOT NULL;
CREATE TABLE memberships (
	organization_id TEXT NOT NULL,
	user_id TEXT NOT NULL,
	role TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (organization_id, user_id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id),
	FOREIGN KEY(user_id) REFERENCES users (id)
);
CREATE INDEX memberships_of_user ON memberships (user_id);
CREATE TABLE invitations (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	email TEXT NOT NULL,
	role TEXT NOT NULL,
	hash BLOB NOT NULL,
	invited_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	accepted_at BIGINT,
	revoked_at BIGINT,
	PRIMARY KEY (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id),
	UNIQUE (hash)
);
CREATE INDEX invitations_of_organization ON invitations (organization_id, id);
CREATE TABLE sessions (
	hash BLOB NOT NULL,
	user_id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	seen_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	address TEXT NOT NULL,
	user_agent TEXT NOT NULL,
	PRIMARY KEY (hash),
	FOREIGN KEY(user_id) REFERENCES users (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX sessions_of_user ON sessions (user_id);
CREATE TABLE sign_in_links (
	hash BLOB NOT NULL,
	user_id TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL, purpose TEXT DEFAULT 'sign_in' NOT NULL, organization_id TEXT, created_by TEXT,
	PRIMARY KEY (hash),
	FOREIGN KEY(user_id) REFERENCES users (id)
);
CREATE TABLE sign_in_failures (
	subject TEXT NOT NULL,
	failures BIGINT NOT NULL,
	since BIGINT NOT NULL,
	PRIMARY KEY (subject)
);
CREATE TABLE audit_log (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	at BIGINT NOT NULL,
	actor_kind TEXT NOT NULL,
	actor_id TEXT,
	actor TEXT NOT NULL,
	action TEXT NOT NULL,
	target TEXT NOT NULL,
	details TEXT DEFAULT '{}' NOT NULL,
	address TEXT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX audit_log_of_organization ON audit_log (organization_id, id);
CREATE TABLE repo_imports (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	full_name TEXT NOT NULL,
	source TEXT NOT NULL,
	state TEXT NOT NULL,
	message TEXT,
	started_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL, lease_until BIGINT,
	PRIMARY KEY (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE INDEX repo_imports_of_organization ON repo_imports (organization_id, id);
CREATE TABLE pull_comments (
	id TEXT NOT NULL,
	repo_id TEXT NOT NULL,
	number BIGINT NOT NULL,
	author_id TEXT,
	author TEXT NOT NULL,
	body TEXT NOT NULL,
	created_at BIGINT NOT NULL, path TEXT, line BIGINT, side TEXT, commit_id TEXT, code TEXT, reply_to TEXT, job_id TEXT, resolved_at BIGINT, resolved_by TEXT,
	PRIMARY KEY (id),
	FOREIGN KEY(repo_id) REFERENCES repos (id)
);
CREATE INDEX comments_of_pull ON pull_comments (repo_id, number, id);
CREATE INDEX pulls_by_time ON pulls (repo_id, created_at, number, state);
CREATE INDEX jobs_of_status ON jobs ((organization_id || ''), (status || ''), id);
CREATE INDEX jobs_of_repo ON jobs (organization_id, repo, id);
CREATE INDEX jobs_of_agent ON jobs (organization_id, agent, id);
CREATE INDEX jobs_of_ticket ON jobs (organization_id, ticket_id, id) WHERE ticket_id IS NOT NULL;
CREATE INDEX jobs_finished_of_organization ON jobs (organization_id, completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX jobs_of_pull ON jobs (repo_id, pr_number) WHERE pr_number IS NOT NULL;
CREATE INDEX jobs_that_follow ON jobs (follows) WHERE follows IS NOT NULL;
CREATE INDEX repos_scan_due ON repos (scan_due_at) WHERE scan_due_at IS NOT NULL;
CREATE TABLE repo_graphs (
	repo_id TEXT NOT NULL,
	commit_id TEXT NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (repo_id),
	FOREIGN KEY(repo_id) REFERENCES repos (id)
);
CREATE TABLE dependencies (
	repo_id TEXT NOT NULL,
	position BIGINT NOT NULL,
	ecosystem TEXT NOT NULL,
	name TEXT NOT NULL,
	version TEXT,
	requirement TEXT NOT NULL,
	direct BOOLEAN NOT NULL,
	scope TEXT NOT NULL,
	manifest TEXT NOT NULL,
	parents TEXT NOT NULL,
	purl TEXT NOT NULL, fixture BOOLEAN DEFAULT 0 NOT NULL, imported TEXT DEFAULT 'unknown' NOT NULL, managed_by TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (repo_id, position),
	FOREIGN KEY(repo_id) REFERENCES repos (id)
);
CREATE INDEX dependencies_by_name ON dependencies (ecosystem, name);
CREATE TABLE advisories (
	id TEXT NOT NULL,
	modified TEXT NOT NULL,
	data TEXT NOT NULL,
	generation BIGINT DEFAULT 0 NOT NULL,
	feed TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX advisories_of_feed ON advisories (feed, generation);
CREATE TABLE advisory_packages (
	ecosystem TEXT NOT NULL,
	name TEXT NOT NULL,
	advisory_id TEXT NOT NULL,
	PRIMARY KEY (ecosystem, name, advisory_id)
);
CREATE INDEX packages_of_advisory ON advisory_packages (advisory_id);
CREATE TABLE advisory_names (
	name TEXT NOT NULL,
	advisory_id TEXT NOT NULL,
	PRIMARY KEY (name, advisory_id)
);
CREATE INDEX names_of_advisory ON advisory_names (advisory_id);
CREATE TABLE advisory_feeds (
	ecosystem TEXT NOT NULL,
	source TEXT NOT NULL,
	newest TEXT,
	etag TEXT,
	records BIGINT DEFAULT 0 NOT NULL,
	generation BIGINT DEFAULT 0 NOT NULL,
	synced_at BIGINT,
	checked_at BIGINT,
	due_at BIGINT DEFAULT 0 NOT NULL,
	error TEXT,
	failures BIGINT DEFAULT 0 NOT NULL,
	warnings TEXT DEFAULT '[]' NOT NULL,
	PRIMARY KEY (ecosystem)
);
CREATE TABLE findings (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	repo_id TEXT NOT NULL,
	manifest TEXT NOT NULL,
	ecosystem TEXT NOT NULL,
	name TEXT NOT NULL,
	version TEXT NOT NULL,
	direct BOOLEAN NOT NULL,
	advisory_id TEXT NOT NULL,
	advisory_ids TEXT NOT NULL,
	severity TEXT NOT NULL,
	score FLOAT,
	severity_source TEXT NOT NULL,
	summary TEXT NOT NULL,
	fix_version TEXT,
	fix_reason TEXT NOT NULL,
	first_seen_at BIGINT NOT NULL, fixture BOOLEAN DEFAULT 0 NOT NULL, imported TEXT DEFAULT 'unknown' NOT NULL, managed_by TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (repo_id, manifest, ecosystem, name, version, advisory_id),
	FOREIGN KEY(repo_id) REFERENCES repos (id)
);
CREATE INDEX findings_of_organization ON findings (organization_id, id);
CREATE TABLE auto_triggers (
	repo_id TEXT NOT NULL,
	manifest TEXT NOT NULL,
	ecosystem TEXT NOT NULL,
	name TEXT NOT NULL,
	fix_version TEXT NOT NULL,
	job_id TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (repo_id, manifest, ecosystem, name, fix_version),
	FOREIGN KEY(repo_id) REFERENCES repos (id)
);
CREATE TABLE forge_connections (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	platform TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	url TEXT NOT NULL,
	app_id TEXT,
	installation_id TEXT,
	account TEXT,
	sealed BLOB NOT NULL,
	key_id TEXT NOT NULL,
	hook_sealed BLOB NOT NULL,
	hook_key_id TEXT NOT NULL,
	error TEXT,
	checked_at BIGINT,
	hook_seen_at BIGINT,
	away_failures BIGINT DEFAULT 0 NOT NULL,
	resting_until BIGINT,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	removed_at BIGINT, commit_name TEXT, commit_email TEXT, signing TEXT DEFAULT 'none' NOT NULL, signing_sealed BLOB, signing_key_id TEXT DEFAULT '' NOT NULL, signing_public_key TEXT,
	PRIMARY KEY (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE UNIQUE INDEX forge_connections_names ON forge_connections (organization_id, name) WHERE removed_at IS NULL;
CREATE TABLE forge_hints (
	id TEXT NOT NULL,
	connection_id TEXT NOT NULL,
	delivery_id TEXT NOT NULL,
	kind TEXT NOT NULL,
	external_id TEXT,
	number BIGINT,
	received_at BIGINT NOT NULL,
	due_at BIGINT,
	tries BIGINT DEFAULT 0 NOT NULL,
	error TEXT,
	PRIMARY KEY (id),
	FOREIGN KEY(connection_id) REFERENCES forge_connections (id)
);
CREATE UNIQUE INDEX forge_hints_deliveries ON forge_hints (connection_id, delivery_id);
CREATE INDEX forge_hints_due ON forge_hints (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX forge_hints_age ON forge_hints (received_at);
CREATE INDEX forge_hints_of_connection ON forge_hints (connection_id, received_at);
CREATE INDEX repos_sync_due ON repos (sync_due_at) WHERE sync_due_at IS NOT NULL;
CREATE UNIQUE INDEX repos_of_connection ON repos (connection_id, external_id) WHERE connection_id IS NOT NULL AND disconnected_at IS NULL;
CREATE INDEX pulls_told ON pulls (repo_id) WHERE told_at IS NOT NULL;
CREATE INDEX pulls_followed ON pulls (repo_id, state) WHERE state <> 'merged';
CREATE TABLE trackers (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	url TEXT,
	account TEXT,
	sealed BLOB,
	key_id TEXT,
	link_back BOOLEAN DEFAULT 0 NOT NULL,
	error TEXT,
	checked_at BIGINT,
	created_at BIGINT NOT NULL,
	removed_at BIGINT,
	PRIMARY KEY (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE UNIQUE INDEX trackers_names ON trackers (organization_id, name) WHERE removed_at IS NULL;
CREATE TABLE used_form_tokens (
	hash BLOB NOT NULL,
	used_at BIGINT NOT NULL,
	PRIMARY KEY (hash)
);
CREATE TABLE processes (
	id TEXT NOT NULL,
	role TEXT NOT NULL,
	hostname TEXT NOT NULL,
	version TEXT NOT NULL,
	configuration_digest TEXT NOT NULL,
	repositories_problem TEXT,
	started_at BIGINT NOT NULL,
	heartbeat_at BIGINT NOT NULL, disk_free_bytes BIGINT, disk_total_bytes BIGINT,
	PRIMARY KEY (id)
);
CREATE TABLE leases (
	name TEXT NOT NULL,
	held_until BIGINT NOT NULL,
	due_at BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (name)
);
CREATE TABLE kept_work (
	job_id TEXT NOT NULL,
	base_commit TEXT NOT NULL,
	head_commit TEXT NOT NULL,
	bundle BLOB NOT NULL,
	PRIMARY KEY (job_id)
);
CREATE TABLE platform_outages (
	"key" TEXT NOT NULL,
	since BIGINT NOT NULL,
	failures BIGINT NOT NULL,
	retry_at BIGINT NOT NULL,
	PRIMARY KEY ("key")
);
CREATE TABLE lost_claims (
	job_id TEXT NOT NULL,
	fence BIGINT NOT NULL,
	worker_id TEXT NOT NULL,
	lost_at BIGINT NOT NULL,
	started BOOLEAN NOT NULL,
	was_alive BOOLEAN NOT NULL, kind TEXT DEFAULT 'worker' NOT NULL,
	PRIMARY KEY (job_id, fence)
);
CREATE INDEX lost_claims_worker ON lost_claims (worker_id);
CREATE INDEX jobs_waiting_in_order ON jobs (organization_id, queue_order, id) WHERE status = 'queued' AND lease_owner IS NULL;
CREATE INDEX jobs_waiting_for_agent ON jobs (agent, organization_id) WHERE status = 'queued' AND lease_owner IS NULL;
CREATE INDEX repos_limited ON repos (id) WHERE max_concurrent_jobs IS NOT NULL;
CREATE TABLE finished_branches (
	repo_id TEXT NOT NULL,
	branch TEXT NOT NULL,
	head_commit TEXT NOT NULL,
	due_at BIGINT NOT NULL,
	failures BIGINT NOT NULL,
	PRIMARY KEY (repo_id, branch)
);
CREATE TABLE proposed_fixes (
	repo_id TEXT NOT NULL,
	manifest TEXT NOT NULL,
	ecosystem TEXT NOT NULL,
	name TEXT NOT NULL,
	fix_version TEXT NOT NULL,
	pull_number BIGINT NOT NULL,
	pull_url TEXT NOT NULL,
	PRIMARY KEY (repo_id, manifest, ecosystem, name, fix_version),
	FOREIGN KEY(repo_id) REFERENCES repos (id)
);
CREATE TABLE repo_hooks (
	repo_id TEXT NOT NULL,
	sealed BLOB NOT NULL,
	key_id TEXT NOT NULL,
	state TEXT NOT NULL,
	note TEXT,
	delivery TEXT NOT NULL,
	is_failing BOOLEAN NOT NULL,
	failures BIGINT NOT NULL,
	checked_at BIGINT,
	due_at BIGINT NOT NULL,
	removal_due_at BIGINT,
	PRIMARY KEY (repo_id)
);
CREATE INDEX repo_hooks_removal ON repo_hooks (removal_due_at);
CREATE TABLE pull_statuses (
	repo_id TEXT NOT NULL,
	number BIGINT NOT NULL,
	job_id TEXT NOT NULL,
	due_at BIGINT,
	failures BIGINT NOT NULL,
	error TEXT,
	written_job_id TEXT NOT NULL,
	head_commit TEXT NOT NULL,
	state TEXT NOT NULL,
	written_at BIGINT,
	PRIMARY KEY (repo_id, number)
);
CREATE INDEX pull_statuses_due ON pull_statuses (due_at);
CREATE TABLE repo_environments (
	repo_id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	definition TEXT,
	trusted_branches TEXT NOT NULL,
	generation BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	PRIMARY KEY (repo_id)
);
CREATE TABLE environment_secrets (
	organization_id TEXT NOT NULL,
	repo_id TEXT NOT NULL,
	name TEXT NOT NULL,
	purpose TEXT NOT NULL,
	host TEXT NOT NULL,
	usage TEXT NOT NULL,
	sealed BLOB NOT NULL,
	key_id TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	PRIMARY KEY (organization_id, repo_id, name)
);
CREATE TABLE environment_builds (
	id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	repo_id TEXT NOT NULL,
	state TEXT NOT NULL,
	reason TEXT NOT NULL,
	location TEXT,
	lease_until BIGINT,
	credential_hash BLOB,
	branch TEXT NOT NULL,
	commit_id TEXT NOT NULL,
	request_key TEXT NOT NULL,
	"key" TEXT NOT NULL,
	generation BIGINT NOT NULL,
	cache_files TEXT NOT NULL,
	image TEXT NOT NULL,
	image_digest TEXT NOT NULL,
	size_bytes BIGINT NOT NULL,
	setup_ms BIGINT NOT NULL,
	hits BIGINT NOT NULL,
	error TEXT NOT NULL,
	log TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	finished_at BIGINT,
	used_at BIGINT,
	PRIMARY KEY (id)
);
CREATE INDEX environment_builds_repo ON environment_builds (repo_id, request_key);
CREATE INDEX environment_builds_state ON environment_builds (state, lease_until);
CREATE TABLE environment_holds (
	"key" TEXT NOT NULL,
	repo_id TEXT NOT NULL,
	location TEXT,
	held_until BIGINT NOT NULL,
	PRIMARY KEY ("key")
);
CREATE TABLE job_labels (
	organization_id TEXT NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	job_id TEXT NOT NULL,
	PRIMARY KEY (organization_id, "key", value, job_id)
);
CREATE INDEX job_labels_of_job ON job_labels (job_id);
CREATE TABLE job_artifacts (
	job_id TEXT NOT NULL,
	name TEXT NOT NULL,
	media_type TEXT NOT NULL,
	size_bytes BIGINT NOT NULL,
	content BLOB NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (job_id, name)
);
CREATE TABLE job_diffs (
	job_id TEXT NOT NULL,
	content BLOB NOT NULL,
	is_truncated BOOLEAN NOT NULL,
	created_at BIGINT NOT NULL, additions BIGINT, deletions BIGINT, files BIGINT,
	PRIMARY KEY (job_id)
);
CREATE TABLE job_reports (
	job_id TEXT NOT NULL,
	markdown TEXT NOT NULL,
	result TEXT,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (job_id)
);
CREATE TABLE event_positions (
	organization_id TEXT NOT NULL,
	last_position BIGINT NOT NULL,
	PRIMARY KEY (organization_id)
);
CREATE INDEX events_unlisted ON events (organization_id, created_at) WHERE organization_id IS NOT NULL AND position IS NULL;
CREATE UNIQUE INDEX events_listed ON events (organization_id, position) WHERE position IS NOT NULL;
CREATE TABLE job_steps (
	job_id TEXT NOT NULL,
	sequence BIGINT NOT NULL,
	started_at BIGINT NOT NULL,
	kind TEXT NOT NULL,
	state TEXT NOT NULL,
	exit_code BIGINT,
	duration_ms BIGINT,
	cost_nanousd BIGINT,
	title TEXT NOT NULL,
	detail TEXT NOT NULL,
	PRIMARY KEY (job_id, sequence)
);
CREATE TABLE finding_decisions (
	repo_id TEXT NOT NULL,
	ecosystem TEXT NOT NULL,
	name TEXT NOT NULL,
	advisory_id TEXT NOT NULL,
	organization_id TEXT NOT NULL,
	state TEXT NOT NULL,
	reason TEXT NOT NULL,
	note TEXT NOT NULL,
	until BIGINT,
	decided_by TEXT,
	decided_by_name TEXT NOT NULL,
	decided_at BIGINT NOT NULL,
	PRIMARY KEY (repo_id, ecosystem, name, advisory_id),
	FOREIGN KEY(repo_id) REFERENCES repos (id)
);
CREATE INDEX finding_decisions_until ON finding_decisions (until) WHERE until IS NOT NULL;
CREATE TABLE pull_views (
	repo_id TEXT NOT NULL,
	number BIGINT NOT NULL,
	user_id TEXT NOT NULL,
	file_key TEXT NOT NULL,
	blob_id TEXT NOT NULL,
	viewed_at BIGINT NOT NULL,
	PRIMARY KEY (repo_id, number, user_id, file_key),
	FOREIGN KEY(repo_id) REFERENCES repos (id)
);
CREATE INDEX pull_views_by_time ON pull_views (viewed_at);
CREATE TABLE advisory_texts (
	advisory_id TEXT NOT NULL,
	data TEXT NOT NULL,
	PRIMARY KEY (advisory_id)
);
INSERT INTO alembic_version VALUES ('0039');
