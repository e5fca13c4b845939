CREATE TABLE "tidemark"."alert_setting" (
	"key" text PRIMARY KEY NOT NULL,
	"value" jsonb,
	"previous" jsonb,
	"by" text NOT NULL,
	"at" timestamp with time zone DEFAULT now() NOT NULL
);
