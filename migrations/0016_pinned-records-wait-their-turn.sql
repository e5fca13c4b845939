UPDATE "tidemark"."pinned_record" SET "looked_at" = now() WHERE "looked_at" IS NULL;--> statement-breakpoint
ALTER TABLE "tidemark"."pinned_record" ALTER COLUMN "looked_at" SET DEFAULT now();--> statement-breakpoint
ALTER TABLE "tidemark"."pinned_record" ALTER COLUMN "looked_at" SET NOT NULL;