CREATE TABLE "tidemark"."contract_change" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."contract_change_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"service" text NOT NULL,
	"stream" text,
	"subject" text NOT NULL,
	"change" text NOT NULL,
	"before" text,
	"after" text,
	"found_at" timestamp with time zone DEFAULT now() NOT NULL,
	"contract_id" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tidemark"."contract_check" (
	"service" text PRIMARY KEY NOT NULL,
	"checked_at" timestamp with time zone DEFAULT now() NOT NULL,
	"contract_id" bigint,
	"problem" text,
	"problem_since" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "tidemark"."contract" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."contract_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"service" text NOT NULL,
	"location" text NOT NULL,
	"openapi" text NOT NULL,
	"title" text NOT NULL,
	"version" text NOT NULL,
	"fingerprint" text NOT NULL,
	"content" json NOT NULL,
	"document" text NOT NULL,
	"first_read_at" timestamp with time zone DEFAULT now() NOT NULL,
	"last_read_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "contract_once" UNIQUE("service","fingerprint")
);
--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "described_as" text;--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "description" text;--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "allowed_values" text[];--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "is_required" boolean;--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "is_nullable" boolean;--> statement-breakpoint
CREATE INDEX "contract_change_by_time" ON "tidemark"."contract_change" USING btree ("found_at");