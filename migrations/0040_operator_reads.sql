-- Operators ask for a status read now. The record of an action keeps the question to the provider that was open: the end of a review takes
-- it from view, and the next answer may replace it.
ALTER TABLE operator_actions
  ADD COLUMN question text CHECK (length(question) BETWEEN 1 AND 1024),
  DROP CONSTRAINT operator_actions_action_check,
  ADD CONSTRAINT operator_actions_action_check CHECK (
    action IN ('review', 'end_review', 'hold', 'release', 'cancel', 'read', 'hold_all', 'release_all', 'advance', 'show_terms', 'approve', 'deny')
  );

-- The records of actions on all operations, which belong to each operation that existed.
CREATE INDEX operator_actions_on_all ON operator_actions (at) WHERE action IN ('hold_all', 'release_all');
