-- Version 1. It is run in one transaction whose search_path is the schema alone, by the owner of the
-- schema: see Migrate. A file that was released never changes; what comes later is the next file.

-- One row for each migration that was run.
CREATE TABLE version (
	version integer PRIMARY KEY,
	at      timestamptz NOT NULL DEFAULT now()
);

-- A log. Who holds its row appends to it.
CREATE TABLE log (
	id              integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	size            bigint NOT NULL DEFAULT 0,
	checkpoint_size bigint NOT NULL DEFAULT 0,        -- the number of entries that checkpoint covers
	origin          text COLLATE "C" NOT NULL UNIQUE,
	checkpoint      bytea
) WITH (fillfactor = 10);

-- A process that appends. It holds the advisory lock (oid of this table, id), on its connection.
CREATE TABLE writer (
	id          integer PRIMARY KEY,
	log         integer NOT NULL,
	incarnation bigint NOT NULL,           -- raised when the writer connects again; the first is a random number
	batch       bigint NOT NULL DEFAULT 0, -- the number of its appends
	at          bigint NOT NULL DEFAULT 0, -- the index at which the last of them began
	fenced      boolean NOT NULL DEFAULT false,
	gone        boolean NOT NULL DEFAULT false -- it left
) WITH (fillfactor = 10);
CREATE INDEX ON writer (log) WHERE NOT fenced AND NOT gone;
CREATE SEQUENCE writer_id AS integer;

-- The entries. They are only ever inserted.
CREATE TABLE entry (
	index   bigint NOT NULL,
	seq     bigint NOT NULL,
	log     integer NOT NULL,
	session text COLLATE "C" NOT NULL,
	body    bytea NOT NULL,
	PRIMARY KEY (log, index),
	UNIQUE (log, session, seq)
);
ALTER TABLE entry ALTER COLUMN body SET STORAGE EXTERNAL;

-- The blobs. A row is removed by an eraser alone.
CREATE TABLE blob (
	log    integer NOT NULL,
	digest bytea NOT NULL,
	bytes  bytea NOT NULL,
	PRIMARY KEY (log, digest)
);
ALTER TABLE blob ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Hashes of the tree. Row n of level k is the 256 hashes of the subtrees of 256^k entries from entry
-- n * 256^(k+1) on. Rows are written when all of their entries are there.
CREATE TABLE hashes (
	n      bigint NOT NULL,
	log    integer NOT NULL,
	level  integer NOT NULL,
	hashes bytea NOT NULL,
	PRIMARY KEY (log, level, n)
);
ALTER TABLE hashes ALTER COLUMN hashes SET STORAGE EXTERNAL;

-- What follows is derived from the entries, and is what an append is compared with.

-- Where a session ends.
CREATE TABLE session (
	next    bigint NOT NULL, -- the seq of its next entry
	lamport bigint NOT NULL,
	time    bigint NOT NULL, -- milliseconds since 1970
	log     integer NOT NULL,
	open    integer NOT NULL, -- its decisions that have no receipt yet
	closed  boolean NOT NULL,
	name    text COLLATE "C" NOT NULL,
	last    bytea NOT NULL, -- the hash of its last entry
	PRIMARY KEY (log, name)
) WITH (fillfactor = 50);

-- What is spent of a budget.
CREATE TABLE balance (
	spent    bigint NOT NULL,
	log      integer NOT NULL,
	budget   text COLLATE "C" NOT NULL,
	"of"     text COLLATE "C" NOT NULL,
	"window" text COLLATE "C" NOT NULL,
	PRIMARY KEY (log, budget, "of", "window")
) WITH (fillfactor = 50);

-- The nonces of approvals that were used.
CREATE TABLE nonce (
	log   integer NOT NULL,
	nonce text COLLATE "C" NOT NULL,
	PRIMARY KEY (log, nonce)
);

-- The decisions that have to get a receipt.
CREATE TABLE open (
	index   bigint NOT NULL,
	log     integer NOT NULL,
	writer  integer NOT NULL, -- made the decision
	settler integer           -- wrote its receipt; null: nobody yet
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX ON open (log, index) WHERE settler IS NULL; -- a small one: nobody looks for the others

-- write appends a batch whose first entry gets the index _at. It returns -1, and has changed nothing,
-- if the log is not as the batch needs it, and -2 if the writer is fenced. Otherwise it returns _at.
-- The caller's transaction holds the row of the log.
--
-- Rows are looked up in a LATERAL with a LIMIT, not by a join and not by ANY of a list: a plan that was
-- made when a table was empty may turn a join around, or find what has the log and filter that by the
-- list, and read the table.
--
-- Where it returns less than 0 the transaction has locked rows and changed none, so that nothing of
-- it need be waited for.
CREATE FUNCTION write(
	_log integer, _writer integer, _incarnation bigint, _at bigint,
	s_name text[], s_next bigint[], s_last bytea[], s_lamport bigint[], s_time bigint[], s_open integer[],
	s_closed boolean[],                               -- the sessions, as they are afterwards
	m_budget text[], m_of text[], m_window text[], m_spent bigint[], -- balances, likewise
	_used text[],                                     -- nonces
	_opened bigint[],                                 -- decisions of this batch, by their place in it
	_settled bigint[],                                -- decisions before it, by their index
	_checkpoint bytea, _checkpoint_size bigint,
	e_session text[], e_seq bigint[], e_body bytea[], -- the entries
	b_digest bytea[], b_bytes bytea[],                -- the blobs
	_session tid[]                                    -- the rows of s_name, or null: not looked up yet
) RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
	_open    tid[]; -- the rows of _settled
	_changed bigint;
	_begun   bigint;
BEGIN
	IF cardinality(_used) > 0 THEN -- asked first: a condition with a SELECT is a statement more
		IF EXISTS (
			SELECT FROM unnest(_used) u
			CROSS JOIN LATERAL (SELECT FROM nonce WHERE log = _log AND nonce = u LIMIT 1) n
		) THEN
			PERFORM set_config('synchronous_commit', 'off', true);
			RETURN -1;
		END IF;
	END IF;

	IF cardinality(_settled) > 0 THEN
		SELECT array_agg(o.row_at) INTO _open FROM unnest(_settled) s
		CROSS JOIN LATERAL (
			SELECT ctid AS row_at, writer FROM open WHERE log = _log AND index = s AND settler IS NULL LIMIT 1
		) o
		WHERE o.writer = _writer OR (SELECT w.fenced OR w.gone FROM writer w WHERE w.id = o.writer);
		IF cardinality(_settled) <> coalesce(cardinality(_open), 0) THEN
			PERFORM set_config('synchronous_commit', 'off', true);
			RETURN -1; -- one of its own was settled by itself: others settle those of fenced writers
		END IF;
	END IF;

	UPDATE writer SET batch = batch + 1, at = _at WHERE id = _writer AND incarnation = _incarnation AND NOT fenced;
	IF NOT FOUND THEN
		PERFORM set_config('synchronous_commit', 'off', true);
		RETURN -2;
	END IF;

	UPDATE log SET
		size = _at + cardinality(e_body),
		checkpoint = CASE WHEN _checkpoint_size < checkpoint_size THEN checkpoint
			WHEN _checkpoint_size > 0 AND substring(checkpoint FROM 1 FOR length(_checkpoint)) = _checkpoint
			THEN checkpoint -- the same one, with lines of witnesses
			ELSE coalesce(_checkpoint, checkpoint) END,
		checkpoint_size = CASE WHEN _checkpoint IS NULL THEN checkpoint_size
			ELSE greatest(_checkpoint_size, checkpoint_size) END
	WHERE id = _log AND size = _at;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the log does not end at %', _at;
	END IF;

	INSERT INTO entry (log, index, session, seq, body)
	SELECT _log, _at + e.place - 1, e.session, e.seq, e.body
	FROM unnest(e_session, e_seq, e_body) WITH ORDINALITY e (session, seq, body, place);

	IF cardinality(b_digest) > 0 THEN
		INSERT INTO blob (log, digest, bytes)
		SELECT _log, b.digest, b.bytes FROM unnest(b_digest, b_bytes) b (digest, bytes)
		ON CONFLICT DO NOTHING;
	END IF;

	-- Rows of sessions are changed by their place: ON CONFLICT would look each up once more, and lock it.
	IF _session IS NULL THEN
		SELECT array_agg(s.row_at ORDER BY a.place) INTO _session FROM unnest(s_name) WITH ORDINALITY a (name, place)
		LEFT JOIN LATERAL (SELECT ctid AS row_at FROM session WHERE log = _log AND name = a.name LIMIT 1) s ON true;
	END IF;
	UPDATE session s SET next = a.next, last = a.last, lamport = a.lamport, time = a.time, open = a.open,
		closed = a.closed
	FROM unnest(_session, s_name, s_next, s_last, s_lamport, s_time, s_open, s_closed)
		a (row_at, name, next, last, lamport, time, open, closed)
	WHERE s.ctid = a.row_at
		-- No =, or a plan may find the rows by these.
		AND s.log IS NOT DISTINCT FROM _log AND s.name IS NOT DISTINCT FROM a.name;
	GET DIAGNOSTICS _changed = ROW_COUNT;
	IF _changed < cardinality(s_name) THEN
		INSERT INTO session (log, name, next, last, lamport, time, open, closed)
		SELECT _log, a.name, a.next, a.last, a.lamport, a.time, a.open, a.closed
		FROM unnest(_session, s_name, s_next, s_last, s_lamport, s_time, s_open, s_closed)
			a (row_at, name, next, last, lamport, time, open, closed)
		WHERE a.row_at IS NULL;
		GET DIAGNOSTICS _begun = ROW_COUNT;
		IF _changed + _begun <> cardinality(s_name) THEN
			RAISE EXCEPTION 'rows of session have moved';
		END IF;
	END IF;

	IF cardinality(m_budget) > 0 THEN
		INSERT INTO balance AS b (log, budget, "of", "window", spent)
		SELECT _log, m.* FROM unnest(m_budget, m_of, m_window, m_spent) m
		ON CONFLICT (log, budget, "of", "window") DO UPDATE SET spent = excluded.spent;
	END IF;

	IF cardinality(_used) > 0 THEN
		INSERT INTO nonce (log, nonce) SELECT _log, u FROM unnest(_used) u;
	END IF;
	IF cardinality(_opened) > 0 THEN
		INSERT INTO open (log, index, writer) SELECT _log, _at + o, _writer FROM unnest(_opened) o;
	END IF;
	IF cardinality(_settled) > 0 THEN
		UPDATE open SET settler = _writer WHERE ctid = ANY (_open);
	END IF;
	RETURN _at;
END
$$;

-- put appends a batch that was made on a guess. It compares the guess with what holds, and then
-- returns what write does.
CREATE FUNCTION put(
	_log integer, _writer integer, _incarnation bigint,
	g_kernel bigint,                                                 -- next of the session ''
	g_name text[], g_next bigint[], g_last bytea[],                  -- sessions
	g_budget text[], g_of text[], g_window text[], g_spent bigint[], -- balances
	s_name text[], s_next bigint[], s_last bytea[], s_lamport bigint[], s_time bigint[], s_open integer[],
	s_closed boolean[],
	m_budget text[], m_of text[], m_window text[], m_spent bigint[],
	_used text[], _opened bigint[], _settled bigint[],
	_checkpoint bytea, _checkpoint_size bigint,
	e_session text[], e_seq bigint[], e_body bytea[],
	b_digest bytea[], b_bytes bytea[]
) RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
	_at      bigint;
	_ours    boolean; -- the writer may write
	_other   boolean; -- the log is not as guessed
	_session tid[];   -- the rows of g_name, which usually begins with s_name
BEGIN
	-- Each statement has a snapshot of its own, so that those after this one see what the last
	-- holder of the row wrote.
	SELECT size INTO STRICT _at FROM log WHERE id = _log FOR NO KEY UPDATE;

	-- All in one statement: to begin one takes the server longer than to look up a row. The writer's
	-- row is locked by write, which looks at it again.
	SELECT EXISTS (SELECT FROM writer WHERE id = _writer AND incarnation = _incarnation AND NOT fenced),
		g_kernel IS DISTINCT FROM coalesce((SELECT next FROM session WHERE log = _log AND name = ''), 0)
			OR coalesce(bool_or(g.next IS DISTINCT FROM coalesce(s.next, 0)
				OR g.last IS DISTINCT FROM coalesce(s.last, decode(repeat('00', 32), 'hex'))), false),
		array_agg(s.row_at ORDER BY g.place)
	INTO _ours, _other, _session
	FROM unnest(g_name, g_next, g_last) WITH ORDINALITY g (name, next, last, place)
	LEFT JOIN LATERAL (
		SELECT ctid AS row_at, next, last FROM session WHERE log = _log AND name = g.name LIMIT 1
	) s ON true;
	IF _ours AND NOT _other AND cardinality(g_budget) > 0 THEN
		_other := EXISTS (
			SELECT FROM unnest(g_budget, g_of, g_window, g_spent) g (budget, "of", "window", spent)
			LEFT JOIN LATERAL (
				SELECT b.spent FROM balance b
				WHERE b.log = _log AND b.budget = g.budget AND b."of" = g."of" AND b."window" = g."window" LIMIT 1
			) b ON true
			WHERE g.spent IS DISTINCT FROM coalesce(b.spent, 0)
		);
	END IF;
	IF NOT _ours OR _other THEN
		PERFORM set_config('synchronous_commit', 'off', true);
		RETURN CASE WHEN _ours THEN -1 ELSE -2 END;
	END IF;

	IF g_name[:cardinality(s_name)] IS DISTINCT FROM s_name THEN
		_session := NULL;
	END IF;
	RETURN write(_log, _writer, _incarnation, _at, s_name, s_next, s_last, s_lamport, s_time, s_open, s_closed,
		m_budget, m_of, m_window, m_spent, _used, _opened, _settled, _checkpoint, _checkpoint_size,
		e_session, e_seq, e_body, b_digest, b_bytes, _session[:cardinality(s_name)]);
END
$$;

-- dead fences the writers whose lock the caller gets, and returns the open decisions of all who are
-- fenced or left. It returns -2 alone if the caller itself is fenced. _table is the first key of the
-- locks.
CREATE FUNCTION dead(_log integer, _writer integer, _incarnation bigint, _table integer)
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
	_other integer;
BEGIN
	PERFORM FROM writer WHERE id = _writer AND incarnation = _incarnation AND NOT fenced;
	IF NOT FOUND THEN
		RETURN NEXT -2;
		RETURN;
	END IF;
	FOR _other IN SELECT id FROM writer WHERE log = _log AND NOT fenced AND NOT gone AND id <> _writer ORDER BY id LOOP
		IF pg_try_advisory_xact_lock(_table, _other) THEN
			UPDATE writer SET fenced = true WHERE id = _other;
		END IF;
	END LOOP;
	RETURN QUERY SELECT o.index FROM open o JOIN writer w ON w.id = o.writer
		WHERE o.log = _log AND o.settler IS NULL AND (w.fenced OR w.gone) ORDER BY o.index;
END
$$;

-- The rights. The roles are named after the schema, since roles are of the whole cluster: those of
-- the schema helm are helm_writer, helm_reader and helm_eraser. They cannot log in; grant them to
-- roles that can. A right of the writer that is not here is refused by the server.
DO $$
DECLARE
	_schema text := current_schema();
	_writer text := _schema || '_writer';
	_reader text := _schema || '_reader';
	_eraser text := _schema || '_eraser';
	_role   text;
BEGIN
	FOREACH _role IN ARRAY ARRAY[_writer, _reader, _eraser] LOOP
		IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = _role) THEN
			BEGIN
				EXECUTE format('CREATE ROLE %I NOLOGIN', _role);
			EXCEPTION WHEN duplicate_object OR unique_violation THEN
				NULL; -- a migration of another database has made it meanwhile
			END;
		END IF;
		EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', _schema, _role);
		EXECUTE format('GRANT SELECT ON version, log TO %I', _role);
	END LOOP;

	EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO %I', _schema, _reader);

	EXECUTE format('GRANT INSERT, SELECT ON entry, blob TO %I', _writer);
	EXECUTE format('GRANT INSERT, SELECT, UPDATE ON log, writer, hashes, session, balance, nonce, open TO %I', _writer);
	EXECUTE format('GRANT USAGE ON SEQUENCE writer_id TO %I', _writer);
	EXECUTE format('REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA %I FROM PUBLIC', _schema);
	EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %I TO %I', _schema, _writer);

	EXECUTE format('GRANT DELETE ON blob TO %I', _eraser);
	EXECUTE format('GRANT SELECT (log, digest) ON blob TO %I', _eraser);
END
$$;

INSERT INTO version (version) VALUES (1);
