CREATE TABLE "tidemark"."action" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."action_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"at" timestamp with time zone DEFAULT now() NOT NULL,
	"who" text NOT NULL,
	"door" text NOT NULL,
	"address" text NOT NULL,
	"action" text NOT NULL,
	"target" text NOT NULL,
	"stream" text,
	"reason" text,
	"confirmed" bigint,
	"before" jsonb,
	"after" jsonb,
	"result" text NOT NULL,
	"told" text NOT NULL
);
--> statement-breakpoint
CREATE INDEX "action_by_stream" ON "tidemark"."action" USING btree ("stream","id");