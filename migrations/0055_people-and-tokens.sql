CREATE TABLE "tidemark"."access_token" (
	"name" text PRIMARY KEY NOT NULL,
	"hash" text NOT NULL,
	"role" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"created_by" text NOT NULL,
	"ends_at" timestamp with time zone,
	"last_used_at" timestamp with time zone,
	CONSTRAINT "access_token_hash_unique" UNIQUE("hash")
);
--> statement-breakpoint
CREATE TABLE "tidemark"."session" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."session_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"hash" text NOT NULL,
	"who" text NOT NULL,
	"role" text NOT NULL,
	"token" text,
	"proof" text,
	"address" text NOT NULL,
	"begun_at" timestamp with time zone DEFAULT now() NOT NULL,
	"seen_at" timestamp with time zone DEFAULT now() NOT NULL,
	"ends_at" timestamp with time zone NOT NULL,
	CONSTRAINT "session_hash_unique" UNIQUE("hash")
);
--> statement-breakpoint
ALTER TABLE "tidemark"."session" ADD CONSTRAINT "session_token_access_token_name_fk" FOREIGN KEY ("token") REFERENCES "tidemark"."access_token"("name") ON DELETE cascade ON UPDATE no action;