CREATE TABLE "tidemark"."difference" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."difference_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"stream" text NOT NULL,
	"key" text NOT NULL,
	"cause" text NOT NULL,
	"version" bigint,
	"mirrored" bigint,
	"columns" text[],
	"run_id" bigint,
	"found_at" timestamp with time zone DEFAULT now() NOT NULL,
	"cured_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "tidemark"."local_change" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."local_change_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"stream" text NOT NULL,
	"operation" text NOT NULL,
	"role" text NOT NULL,
	"application" text,
	"at" timestamp with time zone DEFAULT now() NOT NULL,
	"run_id" bigint
);
--> statement-breakpoint
CREATE TABLE "tidemark"."pinned_record" (
	"stream" text NOT NULL,
	"key" text NOT NULL,
	"version" bigint NOT NULL,
	"pinned_at" timestamp with time zone DEFAULT now() NOT NULL,
	"looked_at" timestamp with time zone,
	"fell_to" bigint,
	"fell_at" timestamp with time zone,
	CONSTRAINT "pinned_record_stream_key_pk" PRIMARY KEY("stream","key")
);
--> statement-breakpoint
DROP VIEW "tidemark"."freshness";--> statement-breakpoint
ALTER TABLE "tidemark"."belief" ADD COLUMN "expires_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."belief" ADD COLUMN "rests_from" bigint;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "settled_through_version" bigint;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "settled_through_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "deletions_known_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "swept_key" text;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "sweep_began_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "inconclusive_runs" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "inconclusive_since" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "epoch" integer DEFAULT 1 NOT NULL;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "table_oid" bigint;--> statement-breakpoint
CREATE INDEX "difference_by_time" ON "tidemark"."difference" USING btree ("stream","found_at");--> statement-breakpoint
CREATE INDEX "local_change_open" ON "tidemark"."local_change" USING btree ("stream") WHERE run_id is null;--> statement-breakpoint
CREATE VIEW "tidemark"."freshness" AS (select name as stream, nullif(position, 0) as read_through_version, read_through_at as read_through_time, last_success_at, last_reconcile_at, settled_through_version, settled_through_at as settled_through_time, deletions_known_at as deletions_known_through from tidemark.stream);--> statement-breakpoint
COMMENT ON VIEW "tidemark"."freshness" IS 'how far each stream has been read, for reports to join';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."stream" IS 'name of the stream, and of its view in bi';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."read_through_version" IS 'row version up to which everything has been read; empty for streams without one';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."read_through_time" IS 'every change that the upstream showed at this moment is here';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."last_success_at" IS 'when a run that asked the upstream last ended well';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."last_reconcile_at" IS 'when all records were last listed and compared';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."settled_through_version" IS 'row version up to which a second way of reading, the list, found nothing missing';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."settled_through_time" IS 'changes that were made before this moment are here, also those that became visible late';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."deletions_known_through" IS 'every record that had vanished from the upstream by this moment is marked as deleted here';