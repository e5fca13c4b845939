CREATE TABLE "tidemark"."standing" (
	"stream" text PRIMARY KEY NOT NULL,
	"state" text NOT NULL,
	"reason" text,
	"seen_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE OR REPLACE VIEW "tidemark"."freshness" AS (select name as stream, nullif(position, 0) as read_through_version, read_through_at as read_through_time, last_success_at, last_reconcile_at, settled_through_version, settled_through_at as settled_through_time, deletions_known_at as deletions_known_through,
  case when paused_at is not null then 'paused' when seen.state <> 'paused' then seen.state when read_through_at is null then 'loading' when last_success_at > now() - interval '1 hour' then 'live' else 'behind' end as state,
  case when read_through_at is not null then 1::real else (select share from tidemark.progress where progress.stream = name and reading = 'first load') end as loaded_share,
  case when paused_at is not null then pause_reason when seen.stream is not null then seen.reason when read_through_at is null or last_success_at > now() - interval '1 hour' then null else 'No worker is running.' end as reason
  from tidemark.stream left join tidemark.standing as seen on seen.stream = name and seen.seen_at > now() - interval '5 minutes');--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."state" IS '`live`, `loading` (not read whole yet), `behind` (read late, or not to the end), `stopped` (nothing comes until a person acts) or `paused`';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."loaded_share" IS 'share of the rows that is here, from 0 to 1; empty while nobody knows how many there are';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."reason" IS 'why it is not `live`, or what else is wrong with it; empty when nothing is';
