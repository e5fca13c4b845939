{{ config(enabled=var('history')) }}
-- Which fields of assignments are changed, how often, and on how many assignments?
select
    changed_at_local::date as day,
    field,
    count(*) as changes,
    count(distinct assignment_id) as assignments
from {{ ref('stg_tidemark__assignment_changes') }}
group by 1, 2
