BEGIN TRANSACTION;
CREATE TABLE wieldy_artifact_versions (
	birth VARCHAR(32) NOT NULL, 
	version INTEGER NOT NULL, 
	mark VARCHAR(32) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	content TEXT NOT NULL, 
	size INTEGER NOT NULL, 
	at DOUBLE NOT NULL, 
	"by" TEXT, 
	similarity DOUBLE, 
	PRIMARY KEY (birth, version)
);
CREATE TABLE wieldy_artifacts (
	"key" VARCHAR(64) NOT NULL, 
	shelf VARCHAR(64) NOT NULL, 
	birth VARCHAR(32) NOT NULL, 
	session TEXT, 
	id TEXT NOT NULL, 
	title TEXT, 
	content_type TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	created_at DOUBLE NOT NULL, 
	changed_at DOUBLE NOT NULL, 
	PRIMARY KEY ("key")
);
CREATE TABLE wieldy_calls (
	id TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	state VARCHAR(12) NOT NULL, 
	fingerprint VARCHAR(64), 
	arguments TEXT, 
	covered TEXT, 
	partial INTEGER NOT NULL, 
	digest VARCHAR(64), 
	asked VARCHAR(64), 
	agent TEXT, 
	session TEXT, 
	parent TEXT, 
	provider_id TEXT, 
	idempotency_key TEXT, 
	reason TEXT, 
	repairs TEXT, 
	requests TEXT, 
	paused TEXT, 
	answers TEXT, 
	proposed_at DOUBLE NOT NULL, 
	expires_at DOUBLE, 
	approved INTEGER, 
	decided_at DOUBLE, 
	decided_by TEXT, 
	decided_why TEXT, 
	started_at DOUBLE, 
	ended_at DOUBLE, 
	owner VARCHAR(40), 
	value TEXT, 
	content TEXT, 
	error TEXT, 
	metadata TEXT, 
	late TEXT, 
	seconds DOUBLE, 
	PRIMARY KEY (id)
);
INSERT INTO "wieldy_calls" VALUES('call_e4b06510399d_1','wipe','pending','46f1a9723bae3b3bc4de097897a27f0bcd08aeefe43354989842e5701979675d','{"path": "a"}',NULL,0,'fde64ffe7a4a0bbd5d2fe2c294b795808c14bcb57a1d08f1c9dcd59871a020f4','fde64ffe7a4a0bbd5d2fe2c294b795808c14bcb57a1d08f1c9dcd59871a020f4',NULL,NULL,NULL,NULL,NULL,'the tool asks for confirmation',NULL,NULL,NULL,NULL,1.79478134828640651697e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "wieldy_calls" VALUES('call_e4b06510399d_2','count','pending','99011cad0f6d962a4ac21228ef9da4d50effc6fe49042a9a0dcff67a8022aaba','{}',NULL,0,'44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a','44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a',NULL,NULL,NULL,NULL,NULL,'the tool asks for confirmation',NULL,NULL,NULL,NULL,1.79478134829120135307e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "wieldy_calls" VALUES('call_e4b06510399d_3','erase','pending','5e578f951632c2c66d3e681bd9fc5c9275763d14e059a359b25ae4f433e557fe','{}',NULL,0,'44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a','44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a',NULL,NULL,NULL,NULL,NULL,'the tool asks for confirmation',NULL,NULL,NULL,NULL,1.79478134829413461682e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "wieldy_calls" VALUES('call_e4b06510399d_4','note','pending','3ba11513bdedfa49e94618359e0864acf71d631bc91ac6a73580af1cf5089bd3','{"path": "a"}',NULL,0,'fde64ffe7a4a0bbd5d2fe2c294b795808c14bcb57a1d08f1c9dcd59871a020f4','fde64ffe7a4a0bbd5d2fe2c294b795808c14bcb57a1d08f1c9dcd59871a020f4',NULL,NULL,NULL,NULL,NULL,'the tool asks for confirmation',NULL,NULL,NULL,NULL,1.79478134829799723624e+09,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE wieldy_chores (
	name VARCHAR(32) NOT NULL, 
	done_at DOUBLE NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "wieldy_chores" VALUES('prune',1.79478134827688789367e+09);
CREATE TABLE wieldy_messages (
	session TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	message TEXT NOT NULL, 
	mark VARCHAR(32), 
	PRIMARY KEY (session, position)
);
CREATE TABLE wieldy_owners (
	id VARCHAR(40) NOT NULL, 
	host TEXT NOT NULL, 
	pid INTEGER NOT NULL, 
	born TEXT NOT NULL, 
	pulse DOUBLE NOT NULL, 
	since DOUBLE NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE wieldy_rules (
	id VARCHAR(32) NOT NULL, 
	verdict VARCHAR(8) NOT NULL, 
	pattern TEXT NOT NULL, 
	conditions TEXT NOT NULL, 
	reason TEXT, 
	agent TEXT, 
	session TEXT, 
	tools TEXT, 
	made_by TEXT, 
	made_at DOUBLE NOT NULL, 
	expires_at DOUBLE, 
	PRIMARY KEY (id)
);
INSERT INTO "wieldy_rules" VALUES('fd0bedf2302148ab8eb20d12d9ef7ed4','allow','wipe','{}',NULL,NULL,'known','{"wipe": "46f1a9723bae3b3bc4de097897a27f0bcd08aeefe43354989842e5701979675d"}','ann',1.79478134828845763202e+09,NULL);
INSERT INTO "wieldy_rules" VALUES('eb82d5e6270f4bb883391d2b1716110d','allow','count','{}',NULL,NULL,'known','{"count": "99011cad0f6d962a4ac21228ef9da4d50effc6fe49042a9a0dcff67a8022aaba"}','ann',1.79478134829201912883e+09,NULL);
INSERT INTO "wieldy_rules" VALUES('f74428b0450d4988b2c12990ac86e5ec','allow','erase','{}',NULL,NULL,'known','{"erase": "5e578f951632c2c66d3e681bd9fc5c9275763d14e059a359b25ae4f433e557fe"}','ann',1.79478134829493212701e+09,NULL);
INSERT INTO "wieldy_rules" VALUES('35635d7a1fb141e682cc0022c733bdc1','allow','note','{}',NULL,NULL,'known','{"note": "3ba11513bdedfa49e94618359e0864acf71d631bc91ac6a73580af1cf5089bd3"}','ann',1.79478134829886841776e+09,NULL);
CREATE TABLE wieldy_sessions (
	id TEXT NOT NULL, 
	made VARCHAR(32) NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	first BIGINT NOT NULL, 
	next BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE wieldy_states (
	name TEXT NOT NULL, 
	state TEXT NOT NULL, 
	saved_at DOUBLE NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE wieldy_version (
	number INTEGER NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "wieldy_version" VALUES(1);
INSERT INTO "wieldy_version" VALUES(2);
INSERT INTO "wieldy_version" VALUES(3);
INSERT INTO "wieldy_version" VALUES(4);
INSERT INTO "wieldy_version" VALUES(5);
CREATE INDEX wieldy_calls_session ON wieldy_calls (session, proposed_at) WHERE session IS NOT NULL;
CREATE INDEX wieldy_calls_time ON wieldy_calls (proposed_at);
CREATE INDEX wieldy_calls_waiting ON wieldy_calls (state, proposed_at) WHERE (state = 'pending' OR state = 'approved' OR state = 'unknown');
CREATE UNIQUE INDEX wieldy_calls_key ON wieldy_calls (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX wieldy_artifacts_shelf ON wieldy_artifacts (shelf, created_at);
COMMIT;
