CREATE TABLE "tidemark"."turn" (
	"name" text PRIMARY KEY NOT NULL
);
--> statement-breakpoint
ALTER TABLE "tidemark"."lease" ADD COLUMN "holder_pid" integer;--> statement-breakpoint
ALTER TABLE "tidemark"."lease" ADD COLUMN "holder_key" bigint;