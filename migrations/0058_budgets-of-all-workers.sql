CREATE UNLOGGED TABLE "tidemark"."budget" (
	"bucket" text PRIMARY KEY NOT NULL,
	"free_at" timestamp with time zone NOT NULL,
	"paused_until" timestamp with time zone,
	"paused_why" jsonb
) WITH (fillfactor = 50);
