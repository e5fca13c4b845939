CREATE SCHEMA IF NOT EXISTS "bi";
--> statement-breakpoint
CREATE SCHEMA IF NOT EXISTS "mirror";
--> statement-breakpoint
CREATE SCHEMA IF NOT EXISTS "tidemark";
--> statement-breakpoint
CREATE TABLE "tidemark"."absence" (
	"stream" text NOT NULL,
	"key" text NOT NULL,
	"missing_since" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "absence_stream_key_pk" PRIMARY KEY("stream","key")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."checkpoint" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."checkpoint_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"stream" text NOT NULL,
	"position" bigint NOT NULL,
	"reached_at" timestamp with time zone DEFAULT now() NOT NULL,
	"run_id" bigint,
	"reason" text
);
--> statement-breakpoint
CREATE TABLE "tidemark"."fact" (
	"stream" text NOT NULL,
	"name" text NOT NULL,
	"value" text NOT NULL,
	"evidence" text NOT NULL,
	"first_at" timestamp with time zone NOT NULL,
	"checked_at" timestamp with time zone NOT NULL,
	"previous_value" text,
	"changed_at" timestamp with time zone,
	CONSTRAINT "fact_stream_name_pk" PRIMARY KEY("stream","name")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."field" (
	"stream" text NOT NULL,
	"folded" text NOT NULL,
	"source_name" text NOT NULL,
	"column_name" text,
	"column_type" text,
	"note" text,
	"first_seen_at" timestamp with time zone DEFAULT now() NOT NULL,
	"last_seen_at" timestamp with time zone DEFAULT now() NOT NULL,
	"records_seen" bigint DEFAULT 0 NOT NULL,
	"nulls_seen" bigint DEFAULT 0 NOT NULL,
	"rescued" bigint DEFAULT 0 NOT NULL,
	"null_share" numeric(5, 4) GENERATED ALWAYS AS (nulls_seen::numeric / nullif(records_seen, 0)) STORED,
	CONSTRAINT "field_stream_folded_pk" PRIMARY KEY("stream","folded")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."lane" (
	"stream" text NOT NULL,
	"lane" text NOT NULL,
	"epoch" bigint NOT NULL,
	CONSTRAINT "lane_stream_lane_pk" PRIMARY KEY("stream","lane")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."late_arrival" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."late_arrival_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"stream" text NOT NULL,
	"key" text NOT NULL,
	"version" bigint NOT NULL,
	"distance" bigint NOT NULL,
	"late_ms" bigint NOT NULL,
	"found_at" timestamp with time zone DEFAULT now() NOT NULL,
	"run_id" bigint
);
--> statement-breakpoint
CREATE TABLE "tidemark"."quarantine" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."quarantine_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"stream" text NOT NULL,
	"reason" text NOT NULL,
	"record" jsonb,
	"record_text" text,
	"repeated" jsonb,
	"fingerprint" text NOT NULL,
	"first_seen_at" timestamp with time zone DEFAULT now() NOT NULL,
	"last_seen_at" timestamp with time zone DEFAULT now() NOT NULL,
	"times_seen" bigint DEFAULT 0 NOT NULL,
	"dropped_at" timestamp with time zone,
	"drop_reason" text,
	CONSTRAINT "quarantine_once" UNIQUE("stream","fingerprint")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."run" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."run_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"stream" text NOT NULL,
	"lane" text NOT NULL,
	"status" text NOT NULL,
	"started_at" timestamp with time zone DEFAULT now() NOT NULL,
	"finished_at" timestamp with time zone,
	"host" text NOT NULL,
	"pid" integer NOT NULL,
	"position_from" bigint,
	"position_to" bigint,
	"inserted" bigint DEFAULT 0 NOT NULL,
	"updated" bigint DEFAULT 0 NOT NULL,
	"unchanged" bigint DEFAULT 0 NOT NULL,
	"rescued" bigint DEFAULT 0 NOT NULL,
	"quarantined" bigint DEFAULT 0 NOT NULL,
	"marked_deleted" bigint DEFAULT 0 NOT NULL,
	"requests" bigint DEFAULT 0 NOT NULL,
	"bytes" bigint DEFAULT 0 NOT NULL,
	"error" text,
	"note" text,
	"is_idle" boolean DEFAULT false NOT NULL,
	"polls" integer DEFAULT 1 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tidemark"."stream" (
	"name" text PRIMARY KEY NOT NULL,
	"position" bigint DEFAULT 0 NOT NULL,
	"position_reached_at" timestamp with time zone,
	"complete_at" timestamp with time zone,
	"key_field" text,
	"lookback_ms" bigint,
	"lookback_reason" text,
	"stopped_reason" text,
	"stopped_at" timestamp with time zone,
	"held" jsonb,
	"last_success_at" timestamp with time zone,
	"last_census_at" timestamp with time zone,
	"columns_version" integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE INDEX "checkpoint_by_time" ON "tidemark"."checkpoint" USING btree ("stream","reached_at");--> statement-breakpoint
CREATE INDEX "checkpoint_by_position" ON "tidemark"."checkpoint" USING btree ("stream","position");--> statement-breakpoint
CREATE INDEX "late_arrival_by_time" ON "tidemark"."late_arrival" USING btree ("stream","found_at");--> statement-breakpoint
CREATE INDEX "run_by_lane" ON "tidemark"."run" USING btree ("stream","lane","id");--> statement-breakpoint
CREATE INDEX "run_in_progress" ON "tidemark"."run" USING btree ("stream","lane") WHERE status = 'running';--> statement-breakpoint
CREATE VIEW "tidemark"."freshness" AS (select name as stream, nullif(position, 0) as complete_through_version, complete_at as complete_through_time, last_success_at, last_census_at from tidemark.stream);