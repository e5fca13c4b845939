CREATE TABLE "tidemark"."backfill" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."backfill_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"stream" text NOT NULL,
	"position_from" bigint NOT NULL,
	"position_to" bigint NOT NULL,
	"position" bigint NOT NULL,
	"status" text DEFAULT 'waiting' NOT NULL,
	"requested_at" timestamp with time zone DEFAULT now() NOT NULL,
	"requested_by" text NOT NULL,
	"started_at" timestamp with time zone,
	"finished_at" timestamp with time zone,
	"rows_read" bigint DEFAULT 0 NOT NULL,
	"inserted" bigint DEFAULT 0 NOT NULL,
	"updated" bigint DEFAULT 0 NOT NULL,
	"quarantined" bigint DEFAULT 0 NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"error" text,
	"note" text
);
--> statement-breakpoint
CREATE TABLE "tidemark"."rescue" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."rescue_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"stream" text NOT NULL,
	"run_id" bigint NOT NULL,
	"found_at" timestamp with time zone DEFAULT now() NOT NULL,
	"rows" bigint DEFAULT 0 NOT NULL,
	"samples" jsonb NOT NULL,
	"acknowledged_at" timestamp with time zone,
	"acknowledged_by" text,
	CONSTRAINT "rescue_once" UNIQUE("stream","run_id")
);
--> statement-breakpoint
ALTER TABLE "tidemark"."absence" ADD COLUMN "evidence" text;--> statement-breakpoint
ALTER TABLE "tidemark"."checkpoint" ADD COLUMN "moved_by" text;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "unguarded_above" bigint;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "unguarded_before" timestamp with time zone;--> statement-breakpoint
CREATE INDEX "backfill_by_stream" ON "tidemark"."backfill" USING btree ("stream","id");--> statement-breakpoint
CREATE INDEX "rescue_open" ON "tidemark"."rescue" USING btree ("stream") WHERE acknowledged_at is null;