ALTER TABLE "tidemark"."field" ADD COLUMN "steady_runs" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "steady_sample" jsonb;