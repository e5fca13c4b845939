ALTER TABLE "tidemark"."stream" DROP COLUMN "stopped_reason";--> statement-breakpoint
ALTER TABLE "tidemark"."stream" DROP COLUMN "stopped_at";