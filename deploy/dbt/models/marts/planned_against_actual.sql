-- How long did work take, and when did it begin, compared with the plan?
select
    date_trunc('month', planned_start_local)::date as month,
    employee_id,
    count(*) as finished,
    round(sum(extract(epoch from planned_end - planned_start)) / 3600, 1) as planned_hours,
    round(sum(extract(epoch from actual_end - actual_start)) / 3600, 1) as actual_hours,
    round(avg(extract(epoch from actual_start - planned_start)) / 60) as minutes_late_at_start,
    count(*) filter (where actual_end > planned_end) as finished_late
from {{ ref('stg_tidemark__assignment') }}
where actual_end is not null and actual_start is not null and planned_end is not null and planned_start is not null
group by 1, 2
