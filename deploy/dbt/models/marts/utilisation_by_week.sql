-- How much of a full week did each employee work on assignments?
select
    date_trunc('week', actual_start_local)::date as week,
    employee_id,
    count(*) as assignments,
    round(sum(extract(epoch from actual_end - actual_start)) / 3600, 1) as hours,
    round(sum(extract(epoch from actual_end - actual_start)) / 3600 / {{ var('weekly_hours') }}, 3) as share_of_week
from {{ ref('stg_tidemark__assignment') }}
where actual_end is not null and actual_start is not null and employee_id is not null
group by 1, 2
