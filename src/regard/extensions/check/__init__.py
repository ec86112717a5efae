"""Coverage errors without a reference: omissions, additions and repetitions in translations of any system."""

from regard.config.extensions import Extension

EXTENSION = Extension(
    names={
        "CheckedSentence": "regard.extensions.check.sentences",
        "CorruptedText": "regard.extensions.check.corrupt",
        "CoverageCheck": "regard.extensions.check.result",
        "CoverageEvaluation": "regard.extensions.check.evaluation",
        "CoverageModel": "regard.extensions.check.api",
        "ReportCheck": "regard.extensions.check.report",
        "check": "regard.extensions.check.api",
        "check_report": "regard.extensions.check.page",
        "corrupt": "regard.extensions.check.corrupt",
        "register_detector": "regard.extensions.check.base",
    },
    hooks={
        "checker": "regard.extensions.check.api:CoverageModel",
        "report_check": "regard.extensions.check.report:ReportCheck",
        "served_check": "regard.extensions.check.server:CheckServer",
    },
    commands={
        "Evaluate and inspect": [
            "regard.extensions.check.command:check_command",
            "regard.extensions.check.command:corrupt_command",
        ]
    },
)
