CREATE TABLE "tidemark"."made_index" (
	"stream" text NOT NULL,
	"column_name" text NOT NULL,
	"place" text NOT NULL,
	"made_at" timestamp with time zone DEFAULT now() NOT NULL,
	"dropped_at" timestamp with time zone,
	CONSTRAINT "made_index_stream_column_name_pk" PRIMARY KEY("stream","column_name")
);
--> statement-breakpoint
ALTER TABLE "tidemark"."role_limit" ADD COLUMN "value" text;--> statement-breakpoint
-- The default comes after the column, so that Postgres does not write the tables anew. Rows that are there already get a transaction when they
-- are next written.
DO $$
DECLARE mirrored regclass;
BEGIN
  FOR mirrored IN
    SELECT pg_class.oid FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE relnamespace = to_regnamespace('mirror') AND relkind = 'r' AND attname = '_first_seen_at'
  LOOP
    EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS _xid xid8', mirrored);
    EXECUTE format('ALTER TABLE %s ALTER COLUMN _xid SET DEFAULT pg_current_xact_id()', mirrored);
    EXECUTE format('COMMENT ON COLUMN %s._xid IS %L', mirrored,
      'transaction that last wrote the row, for programs that follow the changes; empty: before there was such a feed');
  END LOOP;
END $$;
--> statement-breakpoint
-- Every transaction below it has ended: who has read all rows with a lower _xid misses nothing by going on from here.
CREATE FUNCTION "tidemark"."feed_position"() RETURNS xid8
  LANGUAGE sql STABLE PARALLEL SAFE AS 'select pg_snapshot_xmin(pg_current_snapshot())';
--> statement-breakpoint
COMMENT ON FUNCTION "tidemark"."feed_position"() IS
  'note it before you read the rows of mirror with _xid >= the position noted before; go on from it the next time';
