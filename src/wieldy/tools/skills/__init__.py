"""Skills: folders of instructions and files that a model reads when it needs them."""

from .skill_document import SkillError
from .skill_folder import Skill, find_skills
from .skill_tools import add_skills

__all__ = ["Skill", "SkillError", "add_skills", "find_skills"]
