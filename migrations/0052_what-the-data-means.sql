CREATE TABLE "tidemark"."label" (
	"stream" text NOT NULL,
	"field" text NOT NULL,
	"code" text NOT NULL,
	"text" text NOT NULL,
	CONSTRAINT "label_stream_field_code_pk" PRIMARY KEY("stream","field","code")
);
--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "reference_share" numeric(5, 4);--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "label" text;--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "unit" text;--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "meaning" text;--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "meant_reference" text;--> statement-breakpoint
ALTER TABLE "tidemark"."field" ADD COLUMN "label_column" text;