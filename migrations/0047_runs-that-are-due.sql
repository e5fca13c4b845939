CREATE TABLE "tidemark"."due" (
	"stream" text NOT NULL,
	"kind" text NOT NULL,
	"due_at" timestamp with time zone DEFAULT now() NOT NULL,
	"asked_at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "due_stream_kind_pk" PRIMARY KEY("stream","kind")
);
--> statement-breakpoint
-- Earlier versions looked for unfinished backfills every few seconds.
INSERT INTO "tidemark"."due" ("stream", "kind")
SELECT DISTINCT "stream", 'backfill' FROM "tidemark"."backfill" WHERE "status" IN ('waiting', 'running');
