CREATE TABLE "tidemark"."notice" (
	"key" text PRIMARY KEY NOT NULL,
	"what" text NOT NULL,
	"since" timestamp with time zone DEFAULT now() NOT NULL
);
