ALTER TABLE "tidemark"."quarantine" ADD COLUMN "key" text;--> statement-breakpoint
ALTER TABLE "tidemark"."suspect" ADD COLUMN "there_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "deletions_approved_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "reconcile_wanted_at" timestamp with time zone;--> statement-breakpoint
UPDATE "tidemark"."quarantine" SET "key" = (
  SELECT value FROM jsonb_each_text("record") AS field (name, value)
  WHERE lower(name) = replace("stream", '_', '') || 'id' AND value ~ '^-?[0-9]{1,18}$' LIMIT 1
) WHERE jsonb_typeof("record") = 'object';
