CREATE TABLE "tidemark"."granted" (
	"role" text NOT NULL,
	"role_id" bigint NOT NULL,
	"object" text NOT NULL,
	"privilege" text NOT NULL,
	"granted_at" timestamp with time zone DEFAULT now() NOT NULL,
	"revoked_at" timestamp with time zone,
	CONSTRAINT "granted_role_object_privilege_pk" PRIMARY KEY("role","object","privilege")
);
--> statement-breakpoint
-- Roles to which an earlier version gave everything: what they lack of it now was taken back.
INSERT INTO "tidemark"."granted" ("role", "role_id", "object", "privilege", "revoked_at")
WITH schemas AS (
  SELECT oid, nspname::text AS name, nspowner AS owner FROM pg_namespace WHERE nspname IN ('bi', 'mirror', 'tidemark')
), defaults AS (
  SELECT defaclnamespace AS schema, defaclrole AS creator, grantee FROM pg_default_acl, aclexplode(defaclacl)
  WHERE defaclobjtype = 'r' AND privilege_type = 'SELECT'
), roles AS (
  SELECT oid, rolname::text AS name FROM pg_roles
  WHERE rolname IN (SELECT "role" FROM "tidemark"."role_limit")
    OR oid IN (SELECT grantee FROM defaults JOIN schemas ON schemas.oid = schema WHERE name <> 'tidemark')
), given (role, role_id, object, privilege, is_held) AS (
  SELECT roles.name, roles.oid, schemas.name, 'usage', has_schema_privilege(roles.oid, schemas.oid, 'usage') FROM roles, schemas
  UNION ALL
  SELECT roles.name, roles.oid, format('%I.%I', schemas.name, relname), 'select', has_table_privilege(roles.oid, relation.oid, 'select')
  FROM roles, schemas JOIN pg_class AS relation ON relnamespace = schemas.oid
  WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND (schemas.name <> 'tidemark' OR relname = 'freshness')
  UNION ALL
  SELECT roles.name, roles.oid, schemas.name, 'select by default of ' || pg_get_userbyid(creator), EXISTS (
    SELECT FROM defaults WHERE schema = schemas.oid AND defaults.creator = creators.creator AND grantee = roles.oid
  )
  FROM roles, schemas, LATERAL (
    SELECT owner UNION SELECT relowner FROM pg_class WHERE relnamespace = schemas.oid
    UNION SELECT defaults.creator FROM defaults WHERE schema = schemas.oid
  ) AS creators (creator)
  WHERE schemas.name <> 'tidemark'
)
SELECT role, role_id, object, privilege, CASE WHEN NOT is_held THEN now() END FROM given
ON CONFLICT DO NOTHING;
