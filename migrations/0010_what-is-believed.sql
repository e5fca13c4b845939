ALTER TABLE "tidemark"."belief" ADD COLUMN "expires_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "settled_through_version" bigint;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "settled_through_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "deletions_known_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "swept_key" text;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "sweep_began_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "inconclusive_runs" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "inconclusive_since" timestamp with time zone;--> statement-breakpoint
CREATE OR REPLACE VIEW "tidemark"."freshness" AS (select name as stream, nullif(position, 0) as read_through_version, read_through_at as read_through_time, last_success_at, last_reconcile_at, settled_through_version, settled_through_at as settled_through_time, deletions_known_at as deletions_known_through from tidemark.stream);--> statement-breakpoint
COMMENT ON VIEW "tidemark"."freshness" IS 'how far each stream has been read, for reports to join';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."stream" IS 'name of the stream, and of its view in bi';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."read_through_version" IS 'row version up to which everything has been read; empty for streams without one';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."read_through_time" IS 'every change that the upstream showed at this moment is here';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."last_success_at" IS 'when a run that asked the upstream last ended well';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."last_reconcile_at" IS 'when all records were last listed and compared';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."settled_through_version" IS 'row version up to which the list, a second way of reading, left nothing missing';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."settled_through_time" IS 'changes made before this moment are here, also those that became visible late: the list confirmed it';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."deletions_known_through" IS 'every record that had vanished from the upstream by this moment is marked as deleted here';
