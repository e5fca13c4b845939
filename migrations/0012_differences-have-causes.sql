CREATE TABLE "tidemark"."difference" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."difference_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"stream" text NOT NULL,
	"key" text NOT NULL,
	"cause" text NOT NULL,
	"version_here" bigint,
	"version_there" bigint,
	"fields" text[] DEFAULT '{}' NOT NULL,
	"found_at" timestamp with time zone DEFAULT now() NOT NULL,
	"run_id" bigint NOT NULL,
	"cured_at" timestamp with time zone,
	"cure" text
);
--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "volatile_since" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "volatile_evidence" text;--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "silent_runs" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "tidemark"."run" ADD COLUMN "differences" jsonb;--> statement-breakpoint
CREATE INDEX "difference_by_stream" ON "tidemark"."difference" USING btree ("stream","id");