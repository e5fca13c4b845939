CREATE TABLE "tidemark"."setting_override" (
	"name" text PRIMARY KEY NOT NULL,
	"value" text NOT NULL,
	"by" text NOT NULL,
	"at" timestamp with time zone DEFAULT now() NOT NULL
);
