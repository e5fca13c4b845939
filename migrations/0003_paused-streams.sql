ALTER TABLE "tidemark"."stream" ADD COLUMN "paused_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "paused_by" text;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "pause_reason" text;