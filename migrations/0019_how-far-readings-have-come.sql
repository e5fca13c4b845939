CREATE TABLE "tidemark"."minute" (
	"stream" text NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"minutes" smallint DEFAULT 1 NOT NULL,
	"inserted" bigint DEFAULT 0 NOT NULL,
	"updated" bigint DEFAULT 0 NOT NULL,
	"deleted" bigint DEFAULT 0 NOT NULL,
	"quarantined" bigint DEFAULT 0 NOT NULL,
	"read_age" real,
	"settled_age" real,
	"deletions_age" real,
	"state" text,
	CONSTRAINT "minute_stream_at_minutes_pk" PRIMARY KEY("stream","at","minutes")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."progress" (
	"stream" text NOT NULL,
	"reading" text NOT NULL,
	"run_id" bigint NOT NULL,
	"subject" text,
	"began_at" timestamp with time zone NOT NULL,
	"updated_at" timestamp with time zone NOT NULL,
	"ended_at" timestamp with time zone,
	"is_complete" boolean DEFAULT false NOT NULL,
	"rows" bigint DEFAULT 0 NOT NULL,
	"rows_at" timestamp with time zone,
	"requests" bigint DEFAULT 0 NOT NULL,
	"bytes" bigint DEFAULT 0 NOT NULL,
	"total" bigint,
	"total_at" timestamp with time zone,
	"total_requests" integer,
	"share" real,
	"waits_for" text,
	"waits_until" timestamp with time zone,
	"error" text,
	"marks" jsonb DEFAULT '[]'::jsonb NOT NULL,
	CONSTRAINT "progress_stream_reading_pk" PRIMARY KEY("stream","reading")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."service_minute" (
	"service" text NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"minutes" smallint DEFAULT 1 NOT NULL,
	"worker" text DEFAULT '' NOT NULL,
	"requests" bigint DEFAULT 0 NOT NULL,
	"bytes" bigint DEFAULT 0 NOT NULL,
	"failures" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"latency" bigint[] NOT NULL,
	CONSTRAINT "service_minute_service_at_minutes_worker_pk" PRIMARY KEY("service","at","minutes","worker")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."worker" (
	"id" text PRIMARY KEY NOT NULL,
	"host" text NOT NULL,
	"pid" integer NOT NULL,
	"version" text NOT NULL,
	"started_at" timestamp with time zone NOT NULL,
	"seen_at" timestamp with time zone NOT NULL,
	"runs" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"waits" jsonb DEFAULT '[]'::jsonb NOT NULL
);
--> statement-breakpoint
CREATE INDEX "minute_by_time" ON "tidemark"."minute" USING btree ("at");--> statement-breakpoint
CREATE INDEX "service_minute_by_time" ON "tidemark"."service_minute" USING btree ("at");