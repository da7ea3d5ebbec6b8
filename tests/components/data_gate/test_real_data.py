"""Real data made bad one way at a time is blocked for the right reason; harmless changes pass."""


def test_bad_data_is_blocked_with_its_column_and_rule(bad, request, tmp_path):
    source, _, column, rule, change = bad
    verdict = change(request.getfixturevalue(source)).judge(tmp_path)
    assert verdict.word == "blocked"
    assert (column, rule) in {(finding.feature, finding.rule) for finding in verdict.blocking}
    assert all(finding.observed and finding.allowed and finding.accept for finding in verdict.blocking)


def test_harmless_changes_pass(harmless, request, tmp_path):
    source, _, change = harmless
    verdict = change(request.getfixturevalue(source)).judge(tmp_path)
    assert [finding.sentence() for finding in verdict.blocking] == []
