CREATE TABLE "tidemark"."private_field" (
	"stream" text NOT NULL,
	"field" text NOT NULL,
	"rule" text NOT NULL,
	"key_mark" text,
	"since" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "private_field_stream_field_pk" PRIMARY KEY("stream","field")
);
