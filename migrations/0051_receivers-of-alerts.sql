CREATE TABLE "tidemark"."silence" (
	"target" text PRIMARY KEY NOT NULL,
	"until" timestamp with time zone,
	"by" text NOT NULL,
	"reason" text NOT NULL,
	"at" timestamp with time zone DEFAULT now() NOT NULL,
	"seen_at" timestamp with time zone DEFAULT now() NOT NULL,
	"size" real
);
--> statement-breakpoint
ALTER TABLE "tidemark"."problem" ADD COLUMN "receiver" text DEFAULT 'default' NOT NULL;--> statement-breakpoint
ALTER TABLE "tidemark"."problem" ADD COLUMN "is_worse" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "tidemark"."problem" DROP CONSTRAINT "problem_pkey";--> statement-breakpoint
ALTER TABLE "tidemark"."problem" ADD CONSTRAINT "problem_receiver_key_pk" PRIMARY KEY("receiver","key");--> statement-breakpoint
ALTER TABLE "tidemark"."minute" ADD COLUMN "kept" jsonb;