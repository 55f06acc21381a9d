"""Values as pictures: colours, which arrays are images, and PNG. For notebooks and the viewer."""
