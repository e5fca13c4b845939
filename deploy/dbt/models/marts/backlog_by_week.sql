-- How much work is open, by the week that it is planned for and by employee?
select
    date_trunc('week', planned_start_local)::date as week,
    employee_id,
    count(*) as assignments,
    sum(estimated_hours) as estimated_hours,
    sum(price) as price
from {{ ref('stg_tidemark__assignment') }}
where actual_end is null
group by 1, 2
