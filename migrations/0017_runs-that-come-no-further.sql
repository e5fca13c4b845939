ALTER TABLE "tidemark"."stream" ADD COLUMN "stuck_runs" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "stuck_since" timestamp with time zone;