CREATE TABLE "tidemark"."epoch" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."epoch_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"stream" text NOT NULL,
	"began_at" timestamp with time zone DEFAULT now() NOT NULL,
	"run_id" bigint NOT NULL,
	"position" bigint NOT NULL,
	"looked" integer NOT NULL,
	"lost" integer NOT NULL,
	"evidence" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tidemark"."pinned_record" (
	"stream" text NOT NULL,
	"key" text NOT NULL,
	"version" bigint NOT NULL,
	"looked_at" timestamp with time zone,
	"lost_since" timestamp with time zone,
	CONSTRAINT "pinned_record_stream_key_pk" PRIMARY KEY("stream","key")
);
--> statement-breakpoint
CREATE INDEX "epoch_by_time" ON "tidemark"."epoch" USING btree ("stream","began_at");--> statement-breakpoint
-- Nobody has to act any more: what stopped these streams is noticed again, and mended.
UPDATE "tidemark"."stream" SET "stopped_reason" = NULL, "stopped_at" = NULL WHERE "stopped_reason" LIKE 'UPSTREAM_RESTORED%';
