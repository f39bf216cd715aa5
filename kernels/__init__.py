"""Operations, their kernel texts, and the code generation that specializes a text. Nothing here touches a GPU."""
