CREATE TABLE "tidemark"."alert" (
	"key" text PRIMARY KEY NOT NULL,
	"kind" text NOT NULL,
	"stream" text,
	"what" text NOT NULL,
	"what_to_do" text NOT NULL,
	"since" timestamp with time zone NOT NULL,
	"gone_since" timestamp with time zone,
	"told_at" timestamp with time zone,
	"attempts" integer DEFAULT 0 NOT NULL,
	"retry_at" timestamp with time zone
);
--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "rescued_since" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "widened_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "first_complete_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."run" ADD COLUMN "error_code" text;--> statement-breakpoint
UPDATE "tidemark"."stream" SET "first_complete_at" = "complete_at";--> statement-breakpoint
UPDATE "tidemark"."field" SET "rescued_since" = "first_seen_at" WHERE "rescued" > 0;
