ALTER TABLE "tidemark"."run" ADD COLUMN "last_id" bigint;--> statement-breakpoint
ALTER TABLE "tidemark"."lease" ADD COLUMN "run" jsonb;--> statement-breakpoint
ALTER TABLE "tidemark"."lease" ADD COLUMN "run_before" jsonb;