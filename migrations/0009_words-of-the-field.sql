-- Tables and columns get the ordinary words: lane -> lease, fact -> belief, absence -> suspect, rescue -> missed_rows, alert -> problem.
ALTER TABLE "tidemark"."lane" RENAME TO "lease";--> statement-breakpoint
ALTER TABLE "tidemark"."lease" RENAME CONSTRAINT "lane_stream_lane_pk" TO "lease_stream_lane_pk";--> statement-breakpoint
ALTER TABLE "tidemark"."fact" RENAME TO "belief";--> statement-breakpoint
ALTER TABLE "tidemark"."belief" RENAME CONSTRAINT "fact_stream_name_pk" TO "belief_stream_name_pk";--> statement-breakpoint
ALTER TABLE "tidemark"."belief" RENAME COLUMN "checked_at" TO "tested_at";--> statement-breakpoint
ALTER TABLE "tidemark"."absence" RENAME TO "suspect";--> statement-breakpoint
ALTER TABLE "tidemark"."suspect" RENAME CONSTRAINT "absence_stream_key_pk" TO "suspect_stream_key_pk";--> statement-breakpoint
ALTER TABLE "tidemark"."rescue" RENAME TO "missed_rows";--> statement-breakpoint
ALTER TABLE "tidemark"."missed_rows" RENAME CONSTRAINT "rescue_pkey" TO "missed_rows_pkey";--> statement-breakpoint
ALTER TABLE "tidemark"."missed_rows" RENAME CONSTRAINT "rescue_once" TO "missed_rows_once";--> statement-breakpoint
ALTER INDEX "tidemark"."rescue_open" RENAME TO "missed_rows_open";--> statement-breakpoint
ALTER SEQUENCE "tidemark"."rescue_id_seq" RENAME TO "missed_rows_id_seq";--> statement-breakpoint
ALTER TABLE "tidemark"."alert" RENAME TO "problem";--> statement-breakpoint
ALTER TABLE "tidemark"."problem" RENAME CONSTRAINT "alert_pkey" TO "problem_pkey";--> statement-breakpoint
ALTER TABLE "tidemark"."run" RENAME COLUMN "lane" TO "kind";--> statement-breakpoint
ALTER INDEX "tidemark"."run_by_lane" RENAME TO "run_by_kind";--> statement-breakpoint
-- Renamed, not made anew: reports may rest on the view.
ALTER VIEW "tidemark"."freshness" RENAME COLUMN "complete_through_version" TO "read_through_version";--> statement-breakpoint
ALTER VIEW "tidemark"."freshness" RENAME COLUMN "complete_through_time" TO "read_through_time";--> statement-breakpoint
ALTER VIEW "tidemark"."freshness" RENAME COLUMN "last_census_at" TO "last_reconcile_at";--> statement-breakpoint
ALTER TABLE "tidemark"."stream" RENAME COLUMN "complete_at" TO "read_through_at";--> statement-breakpoint
ALTER TABLE "tidemark"."stream" RENAME COLUMN "first_complete_at" TO "first_read_through_at";--> statement-breakpoint
ALTER TABLE "tidemark"."stream" RENAME COLUMN "held" TO "blocked_deletions";--> statement-breakpoint
ALTER TABLE "tidemark"."stream" RENAME COLUMN "last_census_at" TO "last_reconcile_at";--> statement-breakpoint
ALTER TABLE "tidemark"."stream" RENAME COLUMN "last_trailing_at" TO "last_lookback_at";--> statement-breakpoint
COMMENT ON VIEW "tidemark"."freshness" IS 'how far each stream has been read, for reports to join';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."stream" IS 'name of the stream, and of its view in bi';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."read_through_version" IS 'row version up to which everything has been read; empty for streams without one';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."read_through_time" IS 'every change that the upstream showed at this moment is here';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."last_success_at" IS 'when a run that asked the upstream last ended well';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."last_reconcile_at" IS 'when all records were last listed and compared';--> statement-breakpoint
ALTER TABLE "tidemark"."backfill" ADD COLUMN "retry_at" timestamp with time zone;--> statement-breakpoint
-- The kinds of runs that are stored get their new names as well. What reads a list, a verification and a second look at the quarantine
-- shared the names of other kinds.
UPDATE "tidemark"."run" SET "kind" = CASE
  WHEN "note" LIKE 'verification%' AND "kind" IN ('head', 'census') THEN 'verify'
  WHEN "note" LIKE 'quarantine: %' AND "kind" = 'backfill' THEN 'quarantine-retry'
  WHEN "kind" = 'head' AND "stream" IN ('tracker_object', 'assignment_object', 'webhook_definition', 'webhook_subscription') THEN 'list'
  WHEN "kind" = 'head' THEN 'incremental'
  WHEN "kind" = 'trailing' THEN 'lookback'
  WHEN "kind" = 'census' THEN 'reconcile'
  ELSE "kind" END;--> statement-breakpoint
-- No run of an earlier version can write any more, so the leases begin anew.
DELETE FROM "tidemark"."lease";--> statement-breakpoint
UPDATE "tidemark"."stream" SET "stopped_reason" = replace("stopped_reason", 'UPSTREAM_REWOUND', 'UPSTREAM_RESTORED') WHERE "stopped_reason" IS NOT NULL;--> statement-breakpoint
UPDATE "tidemark"."run" SET "error_code" = 'UPSTREAM_RESTORED' WHERE "error_code" = 'UPSTREAM_REWOUND';--> statement-breakpoint
-- What people were told about is found anew, under the new names.
DELETE FROM "tidemark"."problem" WHERE "kind" IN ('held', 'census_rescue', 'fact_flipped');
