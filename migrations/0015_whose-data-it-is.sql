CREATE TABLE "tidemark"."source" (
	"service" text PRIMARY KEY NOT NULL,
	"base_url" text NOT NULL,
	"account" text NOT NULL,
	"noted_at" timestamp with time zone DEFAULT now() NOT NULL,
	"adopted_by" text,
	"reason" text
);
